package page

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/requestid"
	"sendcode/internal/http/evp"
	"sendcode/internal/verify/verification"
)

// tokenField is the hidden field into which the browser puts a token when the form is submitted.
const tokenField = "evt"

// ensureProofNonce returns the nonce in the browser's cookie, and sets the cookie if it has none. A nonce
// stays valid until it has proven an address, since two tabs share a cookie.
func (u *Page) ensureProofNonce(c echo.Context) (string, error) {
	s := u.loadSession(c)
	if s.Nonce == "" {
		s.Nonce, s.NonceAt = rand.Text(), u.Now().Truncate(time.Second)
		if err := u.saveSession(c, s); err != nil {
			return "", err
		}
	}
	return s.Nonce, nil
}

// proveResult is a session after a token was read; ok is true if the token proved the address.
type proveResult struct {
	session
	ok bool
}

// proveOnce calls prove once for all posts of a double click, since a nonce works only once.
func (u *Page) proveOnce(ctx context.Context, s session, to recipient.Recipient, p postedForm) (session, bool) {
	if p.token == "" || s.Nonce == "" || !u.EVP || to.Channel() != recipient.Email {
		return s, false
	}
	after := oncePerClick(u.clicks, p.key, p.token, func() proveResult { return u.prove(ctx, s, to, p) })
	return after.session, after.ok
}

// prove opens an approved verification if the token proves the address. Otherwise it logs why, and
// the person gets a code without a word about the token.
func (u *Page) prove(ctx context.Context, s session, to recipient.Recipient, p postedForm) proveResult {
	issuer, err := u.Tokens.Verify(ctx, p.token, evp.Expected{Origin: u.Origin, Nonce: s.Nonce, Address: to})
	if err == nil {
		ask := verification.Request{
			Caller: p.caller, Channel: string(to.Channel()), To: p.to, Purpose: u.purpose.Name, Languages: p.locale,
			KnownTokens: p.known,
		}
		var result verification.CheckResult
		if result, err = u.Codes.Prove(ctx, ask,
			verification.AddressEvidence{Issuer: issuer, Nonce: s.Nonce, NonceAt: s.NonceAt}); err == nil {
			requestid.AddLogAttrs(ctx, slog.String("app", p.caller.App), slog.String("method", string(result.Method)))
			return proveResult{session{channelState: channelState{Channel: to.Channel(), ID: result.ID}, Return: s.Return,
				known: result.KnownToken}, true}
		}
	}
	u.Logger.InfoContext(ctx, "token does not prove the address: a code is asked for", "app", u.App, "error", err)
	return proveResult{s, false}
}
