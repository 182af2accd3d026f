package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Shared keeps the tokens of one client with a refresh token, encrypted, for all processes.
type Shared interface {
	// Lease returns what is kept. If version is that of what is kept, and no other process has the lease, the caller has
	// it for that long, or until it calls Keep.
	Lease(ctx context.Context, version int64, lasts time.Duration) (Kept, error)
	// Keep replaces what is kept, if its version is still this one, and ends the lease. false: it is another one. It adds
	// 1 to the version. With nil it only ends the lease.
	Keep(ctx context.Context, version int64, tokens []byte, life time.Duration) (bool, error)
}

// Kept is what Shared keeps.
type Kept struct {
	Tokens  []byte // nil: nothing, or it can't be decrypted
	Version int64  // 0: nothing was kept yet
	Left    time.Duration
	Leased  bool // the caller has the lease
}

// leaseLife is how long a lease lasts that its holder does not end: the request, and as long to keep its answer.
const leaseLife = 2 * fetchTimeout

const (
	errLeased   = delivery.SafeError("another process asks the token server, and has no answer yet")
	errDatabase = delivery.SafeError("the database, which keeps the refresh token, is away")
	errUnsaved  = delivery.SafeError("the new refresh token is in memory alone: the database is away")
)

// sharedTokens are the tokens of a client with a refresh token, as this process knows them.
type sharedTokens struct {
	tokens  keptTokens
	until   time.Time // when tokens.Access ends, by the monotonic clock
	version int64     // of tokens in the database
	unsaved bool      // tokens are not in the database yet
	fileRan bool      // the token server has judged the file's token: a login that is kept later is newer
}

// keptTokens is what the database has, encrypted.
type keptTokens struct {
	First           string `json:"first"` // the hash of the file's token with which the login began
	Refresh, Access string
}

// fetchShared gets a token by the newest refresh token, or takes the one that another process has got. A token may come
// with an error: then the database has not taken the new refresh token, and the next call tries that again.
func (s *Source) fetchShared(ctx context.Context) (token string, until time.Time, err error) {
	if s.shared.unsaved {
		err = s.save(ctx)
		if err != nil || time.Until(s.shared.until) > minRenewal {
			return s.shared.tokens.Access, s.shared.until, err
		}
	}
	mine, err := s.lease(ctx)
	if err != nil || !mine {
		return s.shared.tokens.Access, s.shared.until, err
	}
	// the answer may have the only refresh token that is left: the end of the service does not cut it off
	return s.refresh(context.WithoutCancel(ctx))
}

// lease waits until this process may use the refresh token. false: another process has got a token meanwhile.
func (s *Source) lease(ctx context.Context) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	for {
		began := time.Now()
		kept, err := s.client.Shared.Lease(ctx, s.shared.version, leaseLife)
		switch {
		case err != nil:
			return false, errDatabase
		case kept.Version != s.shared.version:
			s.shared.version, s.shared.until, s.shared.tokens = kept.Version, began.Add(kept.Left), keptTokens{}
			_ = json.Unmarshal(kept.Tokens, &s.shared.tokens)
			s.shared.fileRan = s.shared.fileRan || s.shared.tokens.First == s.first()
			if kept.Left > minRenewal && s.shared.tokens.Access != "" && !s.beginsWithFile() {
				return false, nil
			}
			continue
		case kept.Leased:
			return true, nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return false, errLeased
		}
	}
}

// beginsWithFile reports whether the next request has the file's token: there is no other, or the file is new.
func (s *Source) beginsWithFile() bool {
	return s.shared.tokens.Refresh == "" || s.shared.tokens.First != s.first() && !s.shared.fileRan
}

// first returns the hash of the file's token, and of whom it is for.
func (s *Source) first() string {
	sum := sha256.Sum256([]byte(s.client.TokenURL + "\n" + s.client.ID + "\n" + s.client.RefreshToken))
	return hex.EncodeToString(sum[:])
}

// refresh uses the refresh token. The caller has the lease.
func (s *Source) refresh(ctx context.Context) (token string, until time.Time, err error) {
	client, first := s.client, s.shared.tokens.First
	if s.beginsWithFile() {
		first = s.first()
	} else {
		client.RefreshToken = s.shared.tokens.Refresh
	}
	began := time.Now()
	a, err := client.ask(ctx, &s.http)
	var life time.Duration
	if err == nil {
		token, life, err = a.usable()
	}
	s.shared.fileRan = s.shared.fileRan || err == nil || a.Error == "invalid_grant"
	if err != nil && a.Refresh == "" {
		_, _ = s.client.Shared.Keep(ctx, s.shared.version, nil, 0) // else the lease ends by itself
		return "", until, err
	}
	// an answer without a usable token may still have the only refresh token that is left
	s.shared.tokens, s.shared.until = keptTokens{first, cmp.Or(a.Refresh, client.RefreshToken), token}, began.Add(life)
	return token, s.shared.until, cmp.Or(err, s.save(ctx))
}

// save writes the tokens. If another process has written others meanwhile, the next fetch reads those.
func (s *Source) save(ctx context.Context) error {
	text, err := json.Marshal(s.shared.tokens)
	if err != nil {
		return errUnsaved
	}
	kept, err := s.client.Shared.Keep(context.WithoutCancel(ctx), s.shared.version, text, time.Until(s.shared.until))
	s.shared.unsaved = err != nil
	switch {
	case err != nil:
		return errUnsaved
	case kept:
		s.shared.version++
	}
	return nil
}
