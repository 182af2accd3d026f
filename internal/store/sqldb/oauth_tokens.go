package sqldb

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
)

const (
	addOAuthTokensSQL = `INSERT INTO oauth_tokens (client, until, leased_until) VALUES (@client, @now, @now) ON CONFLICT DO NOTHING`

	leaseOAuthTokensSQL = `UPDATE oauth_tokens SET leased_until = @now + CAST(@lasts AS interval)
WHERE client = @client AND version = @version AND leased_until <= @now`

	keepOAuthTokensSQL = `UPDATE oauth_tokens SET sealed = @sealed, version = version + 1, until = @now + CAST(@life AS interval), leased_until = @now
WHERE client = @client AND version = @version`

	endOAuthLeaseSQL = `UPDATE oauth_tokens SET leased_until = @now WHERE client = @client AND version = @version`
)

// LeaseOAuthTokens returns the tokens of a client. If version is theirs, and no lease is left, the caller has the lease
// for so long.
func (db *DB) LeaseOAuthTokens(ctx context.Context, client string, version int64, lasts time.Duration) (store.OAuthTokens, error) {
	args := Args{"client": client, "version": version, "lasts": lasts}
	return WriteWithResult(ctx, db, "LeaseOAuthTokens", func(q Tx) (t store.OAuthTokens, err error) {
		if err := q.exec(addOAuthTokensSQL, args); err != nil {
			return t, err
		}
		leased, err := q.Change(leaseOAuthTokensSQL, args)
		if err != nil {
			return t, err
		}
		var until, now time.Time
		t, err = queryFirst(q, func(t *store.OAuthTokens) []any {
			return []any{&t.Sealed, &t.Version, columns.ScannerFor(&until), columns.ScannerFor(&now)}
		}, `SELECT sealed, version, until, @now FROM oauth_tokens WHERE client = @client`, args)
		t.Left, t.Leased = until.Sub(now), leased
		return t, err
	})
}

// KeepOAuthTokens replaces a client's tokens of this version, of which the newest one lives so long, and ends the lease.
// With nil it only ends the lease. false: the version is another one, and nothing was changed.
func (db *DB) KeepOAuthTokens(ctx context.Context, client string, version int64, sealed []byte, life time.Duration) (bool, error) {
	statement := keepOAuthTokensSQL
	if sealed == nil {
		statement = endOAuthLeaseSQL
	}
	return db.runOne(ctx, "KeepOAuthTokens", statement, Args{"client": client, "version": version, "sealed": sealed, "life": life})
}
