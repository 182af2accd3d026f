package app

import (
	"context"
	"time"

	"sendcode/internal/codes/keys"
	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqldb"
)

// oauthTokensLabel is the label of the seals of oauth_tokens.
const oauthTokensLabel = "oauth tokens"

// TokenSources returns the sources of tokens for mail servers, which have made no request yet. Close them, before db.
func TokenSources(cfg config.Config, db *sqldb.DB, ring *keys.Ring) oauth.Sources {
	return cfg.TokenSources(func(client string) oauth.Shared { return sealedTokens{db, ring, client} })
}

// sealedTokens keeps the tokens of one client in the database, sealed.
type sealedTokens struct {
	db     *sqldb.DB
	ring   *keys.Ring
	client string
}

// Lease implements oauth.Shared. What can't be decrypted, since its key was removed, is as if it were not there.
func (s sealedTokens) Lease(ctx context.Context, version int64, lasts time.Duration) (oauth.Kept, error) {
	t, err := s.db.LeaseOAuthTokens(ctx, s.client, version, lasts)
	kept := oauth.Kept{Version: t.Version, Left: t.Left, Leased: t.Leased}
	if t.Sealed != nil {
		kept.Tokens, _ = s.ring.Open(oauthTokensLabel, t.Sealed, []byte(s.client))
	}
	return kept, err
}

// Keep implements oauth.Shared.
func (s sealedTokens) Keep(ctx context.Context, version int64, tokens []byte, life time.Duration) (bool, error) {
	var sealed []byte
	if tokens != nil {
		var err error
		if sealed, err = s.ring.Seal(oauthTokensLabel, tokens, []byte(s.client)); err != nil {
			return false, err
		}
	}
	return s.db.KeepOAuthTokens(ctx, s.client, version, sealed, life)
}
