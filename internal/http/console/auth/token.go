package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/http/server"
	"sendcode/quota"
)

// Token is a bearer token of the JSON API. The service knows only the hash of the token.
type Token struct {
	ID      string // the name of the token in audit entries and logs; empty: the token is from the environment
	SHA256  [sha256.Size]byte
	Role    Role      // a token with an unknown role may do nothing
	Expires time.Time // from this time on the token is refused; zero: the token does not expire
}

// actor returns the actor that a token stands for.
func (t Token) actor() Actor {
	if t.ID == "" {
		return Actor{tokenActorName, t.Role}
	}
	return Actor{tokenActorName + ":" + t.ID, t.Role}
}

func (t Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// authenticateToken returns the actor of the request's bearer token. A client may send only a
// limited number of wrong tokens. Right tokens do not count towards this limit and are always
// accepted. The limit is not needed against guessing, because a token is too long to guess. It only
// bounds the work that wrong tokens cause. The error is a problem, which becomes the response.
func (a *Auth) authenticateToken(c echo.Context) (Actor, error) {
	ctx := c.Request().Context()
	token, known := a.findToken(c)
	if known && !token.expired(a.now()) {
		server.AdoptRequestID(c)
		return token.actor(), nil
	}
	d, err := a.attempts.take(ctx, wrongTokenRules, networkBuckets("token", server.ClientIP(c)))
	if err != nil {
		return Actor{}, fault.Unavailable.Wrap(fmt.Errorf("wrong admin tokens not counted: %w", err))
	}
	if !d.Admitted {
		return Actor{}, a.refuseWrongTokens(c, d)
	}
	a.logRefusedToken(c, token.ID)
	return Actor{}, &server.Problem{Kind: server.Unauthorized, Detail: "The admin token is not known."}
}

// HasToken reports whether the request has a configured token that has not expired. A wrong token
// is not counted.
func (a *Auth) HasToken(c echo.Context) bool {
	token, known := a.findToken(c)
	return known && !token.expired(a.now())
}

// refuseWrongTokens returns the problem (429) for a client whose address or network sent too many
// wrong tokens. It counts and logs the refusal.
func (a *Auth) refuseWrongTokens(c echo.Context, d quota.Decision) error {
	rule, _ := d.Blocking()
	a.Refused("token", rule.Name)
	a.logRefusedToken(c, "")
	return &server.Problem{Kind: server.TooManyAttempts, Wait: d.RetryAfter()}
}

// logRefusedToken logs that an admin token was refused. expired is the ID of an expired token, or
// "" for any other refused token. At most one line a minute is logged for each expired token, and
// one for all others together.
func (a *Auth) logRefusedToken(c echo.Context, expired string) {
	ctx, where := c.Request().Context(), clientNetwork(c)
	if expired != "" {
		if n, due := a.lines.Add("token."+expired, a.now()); due {
			a.logger.WarnContext(ctx, "expired admin token refused", "token", expired, "count", n, "network", where,
				logs.SeeConsole)
		}
		return
	}
	if n, due := a.lines.Add("token", a.now()); due {
		a.logger.WarnContext(ctx, "unknown admin token refused", "count", n, "network", where, logs.SeeConsole)
	}
}

// findToken returns the configured token that equals the request's token. If there is no such
// token, known is false. findToken compares with all configured tokens, so that the time that it
// takes does not reveal which token is equal.
func (a *Auth) findToken(c echo.Context) (found Token, known bool) {
	presented, ok := server.BearerToken(c)
	if !ok {
		return Token{}, false
	}
	sum := sha256.Sum256([]byte(presented))
	for _, t := range a.Tokens {
		if subtle.ConstantTimeCompare(sum[:], t.SHA256[:]) == 1 {
			found, known = t, true
		}
	}
	return found, known
}
