package ui

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/recipient"
	"sendcode/internal/verification"
)

// posted is one form, understood.
type posted struct {
	caller verification.Caller
	locale string
	to     string // send: the address
	sure   string // send: the domain that was doubted and is meant
	draft  bool   // use: it is about the address in the field, not the one that was sent to
	code   string // check
	act    string // send: names the rendering that was pressed and what was pressed on it; empty: unknown
}

// maxAddress is how much of a typed address is remembered, in bytes: an address has at most 254, and the cookie that
// carries it at most 4096.
const maxAddress = 320

// act does what a form asks for, remembers what came of it, and sends the browser to the page.
func (u *UI) act(c echo.Context) error {
	f, err := form(c)
	if err != nil {
		return err
	}
	s := u.remembered(c)
	s.Note = note{}
	p := posted{
		caller: u.caller(c), locale: localeOf(c.Request()),
		to: strings.TrimSpace(f.Get("to")), sure: f.Get("sure"), draft: f.Has("draft"), code: f.Get("code"),
	}
	do, ok := map[string]func(context.Context, session, posted) session{
		"send": u.send, "again": u.again, "check": u.check, "use": u.use,
	}[f.Get("act")]
	if !ok {
		return echo.NewHTTPError(http.StatusBadRequest, "unknown act")
	}
	if f.Get("act") != "send" && f.Get("of") != s.mark() {
		s.Note = note{Kind: stale}
		return u.back(c, s)
	}
	ctx := c.Request().Context()
	key := actKey(f.Get("intent"), f.Get("act"), p.to, p.sure, p.code, s.ID)
	if f.Get("intent") != "" {
		p.act = base64.RawURLEncoding.EncodeToString(key[:])
	}
	after, err := u.once.do(ctx, key, u.Now(), func() session { return do(context.WithoutCancel(ctx), s, p) })
	if err != nil {
		return err // the browser has gone
	}
	return u.back(c, after)
}

// back ends every post: the page that follows can be reloaded without posting again.
func (u *UI) back(c echo.Context, s session) error {
	if err := u.remember(c, s); err != nil {
		return err
	}
	target := "/"
	switch s.Note.Kind {
	case badAddress, typo, taken:
		target = "/?view=change"
	}
	return c.Redirect(http.StatusSeeOther, target)
}

// send asks for a code for the address typed. The verification that the browser is at is named when it is for the
// same address, so that a person who typed it again is still its holder.
func (u *UI) send(ctx context.Context, s session, p posted) session {
	to, err := recipient.Parse(recipient.Email, p.to)
	if err != nil {
		return s.typed(p.to, note{Kind: badAddress, Reason: reasonOf(err)})
	}
	if _, domain, _ := strings.Cut(p.to, "@"); p.sure != domain {
		if _, doubted := recipient.Suggest(p.to); doubted {
			return s.typed(p.to, note{Kind: typo})
		}
	}
	if known, err := recipient.Parse(recipient.Email, s.To); err != nil || known != to {
		s = session{}
	}
	s.To, s.Draft = p.to, ""
	return u.ask(ctx, s, p)
}

// typed keeps an address that was not acted on. The verification stays, so that there is a way back to it.
func (s session) typed(to string, n note) session {
	if len(to) > maxAddress {
		to = ""
	}
	s.Draft, s.Note = to, n
	return s
}

func reasonOf(err error) string {
	var bad *recipient.InvalidError
	if errors.As(err, &bad) {
		return bad.Reason
	}
	return ""
}

// again asks for another code for the address that is remembered.
func (u *UI) again(ctx context.Context, s session, p posted) session {
	if s.To == "" {
		return session{}
	}
	return u.ask(ctx, s, p)
}

func (u *UI) ask(ctx context.Context, s session, p posted) session {
	ask := verification.Ask{
		Caller: p.caller, Channel: string(recipient.Email), To: s.To, Purpose: u.Purpose, Locale: p.locale, Resend: s.ID, Key: p.act,
	}
	a, err := u.sendOnce(ctx, ask)
	if errors.Is(err, verification.ErrNotFound) { // erased since: ask as if for the first time
		s.ID, ask.Resend = "", ""
		a, err = u.sendOnce(ctx, ask)
	}
	switch {
	case err != nil:
		return u.failed(s, err)
	case a.Admitted:
		return session{ID: a.View.ID, To: s.To}
	}
	s.Refused, s.Until = true, u.Now().Add(a.Quota.RetryAfter())
	return s
}

// How long a click waits for the answer to its twin on another replica.
const (
	twinStep  = 100 * time.Millisecond
	twinSteps = 50
)

// sendOnce waits while another replica works on the same click: both then show what came of it. A form that is posted
// again after a while is meant, as once has it.
func (u *UI) sendOnce(ctx context.Context, ask verification.Ask) (verification.Answer, error) {
	again := time.NewTicker(twinStep)
	defer again.Stop()
	for range twinSteps {
		a, err := u.Codes.Send(ctx, ask)
		switch {
		case errors.Is(err, verification.ErrBusy):
			<-again.C
		case err == nil && a.Replayed && a.View.Now.Sub(a.View.Send.At) >= sameClick:
			ask.Key = ""
		default:
			return a, err
		}
	}
	return verification.Answer{}, verification.ErrUnavailable
}

// failed keeps what an error means for the next page.
func (u *UI) failed(s session, err error) session {
	var bad *verification.InvalidError
	if errors.As(err, &bad) {
		if bad.Field == "to" {
			s.Note = note{Kind: badAddress, Reason: bad.Reason}
			return s
		}
		u.Logger.Error("the page's own request was refused", "field", bad.Field, "reason", bad.Reason)
	}
	s.Note = note{Kind: away, At: u.Now()}
	return s
}

// use takes the address that was suggested into the field; sending it is left to the person.
func (u *UI) use(_ context.Context, s session, p posted) session {
	doubted := s.To
	if p.draft {
		doubted = s.Draft
	}
	better, ok := recipient.Suggest(doubted)
	if !ok {
		better = doubted
	}
	return s.typed(better, note{Kind: taken})
}

// check tries a code. What this code cannot look like is answered here: a slip of the finger must not cost a try.
func (u *UI) check(ctx context.Context, s session, p posted) session {
	if s.ID == "" {
		return s
	}
	if a, err := u.Codes.Get(ctx, p.caller, s.ID); err == nil { // otherwise Check says what is the matter
		if reason := slip(a.View.Code, p.code); reason != "" {
			s.Note = note{Kind: badCode, Reason: reason}
			return s
		}
	}
	checked, err := u.Codes.Check(ctx, p.caller, s.ID, p.code)
	var bad *verification.InvalidError
	var barred *verification.TooManyChecksError
	switch {
	case errors.Is(err, verification.ErrNotFound):
		return session{To: s.To}
	case errors.As(err, &barred):
		s.Note = note{Kind: tooMany}
	case errors.As(err, &bad):
		s.Note = note{Kind: badCode, Reason: bad.Reason}
	case err != nil:
		return u.failed(s, err)
	case checked.Valid:
		return session{ID: s.ID} // the address has served
	case checked.State == verification.Pending:
		s.Note = note{Kind: wrongCode}
	}
	return s
}

// slip says what keeps a text from being the code, in the words of package verification and one more: "length".
func slip(code verification.CodeShape, typed string) string {
	read, err := code.Alphabet.Read(typed)
	var bad *verification.InvalidError
	switch {
	case errors.As(err, &bad):
		return bad.Reason
	case code.Length > 0 && len(read) != code.Length:
		return "length"
	}
	return ""
}

// awayWait is the wait told while a part is away: as long as the server's own Retry-After, with time to read.
const awayWait = 5 * time.Second
