package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// Claims and releases of Idempotency-Keys that arrive during a round trip share the next one, as
// Begins do. A batch has at most one call for a key, sorted by key, so that replicas lock in the
// same order and can't deadlock.
//
// A claim's COMMIT doesn't wait for the disk. The send's COMMIT comes later in the same write-ahead
// log, and waits until all of the log before it is on the disk, or on a synchronous standby: a
// crash can't lose a claim and keep its send. A repeated request finds the send; the COMMIT of that
// read waits for the disk too.

// idempotencyChange is a call of ClaimIdempotencyKey or ReleaseIdempotencyKey.
type idempotencyChange struct {
	store.IdempotencyClaim // a release has only Key and SendID
	release                bool
	forget                 bool // with release: another request may use the key
}

type idempotencyCall = batch.Call[idempotencyChange, store.IdempotencyClaimAnswer]

// releasedClaims are the rows r to release, and newClaims are the rows u to claim.
var (
	releasedClaims = sqlgen.NewList("r", new(idempotencyCall), func(x *idempotencyCall, to *sqlgen.Row) {
		to.Bytes("key", x.In.Key[:])
		to.UUID("send", x.In.SendID)
	})
	newClaims = sqlgen.NewList("u", new(idempotencyCall), func(x *idempotencyCall, to *sqlgen.Row) {
		to.Bytes("key", x.In.Key[:])
		to.Bytes("fingerprint", x.In.Fingerprint[:])
		to.UUID("send", x.In.SendID)
	})
)

const (
	asynchronousCommitSQL = "SET LOCAL synchronous_commit = off"

	claimedSendsSQL = `
FROM idempotency_keys k CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = k.send_id LIMIT 1) s`
	claimIsOldSQL = `k.created_at <= excluded.created_at - @life * interval '1 microsecond'`
)

var (
	deleteClaimsSQL = `
DELETE FROM idempotency_keys k USING ` + releasedClaims.SQL() + `
WHERE k.key = ANY (@r_key::bytea[]) AND k.key = r.key AND k.send_id = r.send`

	endClaimLeasesSQL = `
UPDATE idempotency_keys k SET held_until = @now FROM ` + releasedClaims.SQL() + `
WHERE k.key = ANY (@r_key::bytea[]) AND k.key = r.key AND k.send_id = r.send`

	claimKeysSQL = `
INSERT INTO idempotency_keys AS k (key, fingerprint, send_id, created_at, held_until)
SELECT u.key, u.fingerprint, u.send, clock.now, clock.now + @lease * interval '1 microsecond'
FROM (SELECT @now AS now) AS clock, ` + newClaims.SQL() + ` ORDER BY u.key
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, held_until = excluded.held_until,
    send_id = CASE WHEN ` + claimIsOldSQL + ` THEN excluded.send_id ELSE k.send_id END,
    created_at = CASE WHEN ` + claimIsOldSQL + ` THEN excluded.created_at ELSE k.created_at END
WHERE ` + claimIsOldSQL + ` OR k.held_until <= excluded.created_at AND k.fingerprint = excluded.fingerprint
RETURNING k.key, k.send_id, @now`

	// These read claims of keys that were used before. claimKeysSQL may wait for another
	// transaction, and only a separate statement sees what that transaction committed.
	readClaimsSQL = `SELECT k.key, @now, k.fingerprint, k.send_id FROM idempotency_keys k WHERE k.key = ANY (@keys::bytea[])`
	// The lock makes the commit wait for the synchronous standby; see awaitStandby.
	readClaimedSendsSQL = `SELECT k.key, ` + sqldb.SendColumns + claimedSendsSQL + `
WHERE k.key = ANY (@keys::bytea[]) FOR KEY SHARE OF k`
	readClaimedVerificationsSQL = `SELECT k.key, ` + sqldb.VerificationColumns + claimedSendsSQL + `
CROSS JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = s.verification_id LIMIT 1) v WHERE k.key = ANY (@keys::bytea[])`
)

var claimStatements = []string{
	asynchronousCommitSQL, deleteClaimsSQL, endClaimLeasesSQL, claimKeysSQL, readClaimsSQL,
	readClaimedSendsSQL, readClaimedVerificationsSQL,
}

// ClaimIdempotencyKey implements sqldb.PerDatabase.
func (db *DB) ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	defer db.Observe(&ctx, "claim", "claim")()
	return db.claims.Submit(ctx, idempotencyChange{IdempotencyClaim: c}, batchKeyOfClaim(c.Key))
}

// ReleaseIdempotencyKey implements sqldb.PerDatabase.
func (db *DB) ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	defer db.Observe(&ctx, "release", "release")()
	c := idempotencyChange{IdempotencyClaim: store.IdempotencyClaim{Key: key, SendID: id}, release: true, forget: forget}
	_, err := db.claims.Submit(ctx, c, batchKeyOfClaim(key))
	return err
}

// key is the hash of an Idempotency-Key.
func batchKeyOfClaim(key [32]byte) int64 { return int64(binary.BigEndian.Uint64(key[:])) }

// changeIdempotencyClaims gives every call an answer or an error, within beginTimeout.
func (db *DB) changeIdempotencyClaims(batch []*idempotencyCall) {
	ctx, cancel := context.WithTimeout(batch[0].RoundTripContext(), beginTimeout())
	defer cancel()
	slices.SortFunc(batch, func(x, y *idempotencyCall) int { return slices.Compare(x.In.Key[:], y.In.Key[:]) })
	runBatch(ctx, false, batch, db.changeClaimsTogether)
}

// changeClaimsTogether makes one round trip and answers the calls, except for keys that were used
// before: a further trip reads their claims.
//
// If the database's answer is lost, the trip may be repeated although it was committed: the row of
// a claim has the call's send ID, by which the repetition recognizes it.
func (db *DB) changeClaimsTogether(ctx context.Context, brief bool, batch []*idempotencyCall) error {
	var answers map[[32]byte]store.IdempotencyClaimAnswer
	var claims, ended, forgotten, usedBefore []*idempotencyCall
	for _, x := range batch {
		switch {
		case !x.In.release:
			claims = append(claims, x)
		case x.In.forget:
			forgotten = append(forgotten, x)
		default:
			ended = append(ended, x)
		}
	}
	runs := 0
	err := db.withRetry(ctx, true, func(conn *pgxpool.Conn) (notCommitted bool, err error) {
		runs++
		answers, notCommitted, err = db.changeClaimsOnConn(ctx, conn, brief, claims, ended, forgotten)
		return notCommitted, err
	})
	if err != nil {
		return err
	}
	for _, x := range batch {
		if x.In.release || answers[x.In.Key].SendID == x.In.SendID {
			x.SetAnswer(answers[x.In.Key], nil)
		} else {
			usedBefore = append(usedBefore, x)
		}
	}
	if len(usedBefore) == 0 {
		return nil
	}
	return db.withRetry(ctx, true, func(conn *pgxpool.Conn) (notCommitted bool, err error) {
		return false, db.readEarlierClaims(ctx, conn, usedBefore, answers, runs > 1)
	})
}

// changeClaimsOnConn claims and releases in one round trip. granted has what readGrantedClaims
// reads. If notCommitted, after an error, nothing was committed.
func (db *DB) changeClaimsOnConn(ctx context.Context, conn *pgxpool.Conn, brief bool, claims, ended, forgotten []*idempotencyCall) (
	granted map[[32]byte]store.IdempotencyClaimAnswer, notCommitted bool, err error,
) {
	trip := db.open(brief)
	db.queue(trip, asynchronousCommitSQL)
	if len(forgotten) > 0 {
		db.queue(trip, deleteClaimsSQL, releasedClaims.Args(forgotten))
	}
	if len(ended) > 0 {
		db.queue(trip, endClaimLeasesSQL, releasedClaims.Args(ended))
	}
	if len(claims) > 0 {
		db.queue(trip, claimKeysSQL, newClaims.Args(claims), sqldb.Args{
			"lease": store.IdempotencyClaimLease().Microseconds(), "life": store.IdempotencyKeyLife.Microseconds(),
		})
	}
	granted = map[[32]byte]store.IdempotencyClaimAnswer{}
	changes := trip.Len()
	notCommitted, err = db.runAndCommit(ctx, conn, trip, func(results pgx.BatchResults) error {
		if len(claims) == 0 {
			return execAll(results, changes)
		}
		if err := execAll(results, changes-1); err != nil {
			return err
		}
		return readGrantedClaims(results, granted)
	})
	return granted, notCommitted, err
}

// readGrantedClaims adds the rows of claimKeysSQL to granted, by key: claims that were granted. If
// a row has the caller's own send ID, the claim is new, and needs no further read.
func readGrantedClaims(results pgx.BatchResults, granted map[[32]byte]store.IdempotencyClaimAnswer) error {
	var key []byte
	var c store.IdempotencyClaimAnswer
	rows, _ := results.Query() // rows reports the error
	_, err := pgx.ForEachRow(rows, []any{&key, &c.SendID, sqlgen.ScannerFor(&c.Now)},
		func() error { granted[[32]byte(key)] = c; c = store.IdempotencyClaimAnswer{}; return nil })
	return err
}

// readEarlierClaims answers claims of keys that were used before. answers has the claims that were
// granted. With repeated, an earlier run may have been committed, so a row with the caller's send
// ID is its own claim.
func (db *DB) readEarlierClaims(ctx context.Context, conn *pgxpool.Conn, usedBefore []*idempotencyCall,
	answers map[[32]byte]store.IdempotencyClaimAnswer,
	repeated bool,
) (err error) {
	// runOnWriter would report that nothing was committed, but the claims are.
	defer panics.Recover(panics.Batch, func() { err = store.WrapUnavailable(panics.Err) })
	var trip pgx.Batch
	keys := sqldb.Args{"keys": sqlgen.MapSlice(usedBefore, func(x *idempotencyCall) []byte { return x.In.Key[:] })}
	for _, statement := range []string{readClaimsSQL, readClaimedSendsSQL, readClaimedVerificationsSQL} {
		db.queue(&trip, statement, keys)
	}
	results := conn.SendBatch(ctx, &trip)
	defer func() { err = errors.Join(err, results.Close()) }()
	var key []byte
	var now time.Time
	var row store.IdempotencyClaimRow
	var s store.Send
	var v store.Verification
	stored := map[[32]byte]store.IdempotencyClaimRow{}
	sends := map[[32]byte]store.Send{}
	verifications := map[[32]byte]store.Verification{}
	for _, read := range []struct {
		fields []any
		each   func(key [32]byte)
	}{
		{
			[]any{sqlgen.ScannerFor(&now), &row.Fingerprint, &row.SendID},
			func(key [32]byte) { stored[key] = row; row = store.IdempotencyClaimRow{} },
		},
		{sqldb.SendTable.Destinations(&s), func(key [32]byte) { sends[key] = s; s = store.Send{} }},
		{sqldb.VerificationFields(&v), func(key [32]byte) { verifications[key] = v; v = store.Verification{} }},
	} {
		rows, _ := results.Query() // rows reports the error
		_, err := pgx.ForEachRow(rows, append([]any{&key}, read.fields...),
			func() error { read.each([32]byte(key)); return nil })
		if err != nil {
			return err
		}
	}
	if err := results.Close(); err != nil { // waits for the commit
		return err
	}
	for _, x := range usedBefore {
		_, granted := answers[x.In.Key]
		// without a row, another request has just released and deleted the claim
		answer := store.IdempotencyClaimAnswer{State: store.IdempotencyClaimBusy}
		if row, found := stored[x.In.Key]; found {
			answer = row.Answer(x.In.IdempotencyClaim, granted ||
				repeated && row.SendID == x.In.SendID, sends[x.In.Key], verifications[x.In.Key], now)
		}
		x.SetAnswer(answer, nil)
	}
	return nil
}
