package admin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// Doer is what administrators may have done. Implementation: *support.Desk, which records each before it happens, or
// with it.
type Doer interface {
	Person(app, channel, to, purpose, reason string) (support.Person, error)
	ResetQuota(ctx context.Context, p support.Person, act store.AuditEntry) error
	Erase(ctx context.Context, p support.Person, act store.AuditEntry) error
	CancelFor(ctx context.Context, v store.Verification, act store.AuditEntry) (bool, error)
	ResendFor(ctx context.Context, v store.Verification, from netip.Addr, act store.AuditEntry) (verification.Answer, error)
	Reveal(ctx context.Context, v store.Verification, act store.AuditEntry) (string, error)
	LiftPrefix(ctx context.Context, l store.PrefixLifting, act store.AuditEntry) (store.PrefixPause, bool, error)
}

// deed is something that can be done from a send's page. do gives what to show: the full recipient, or nothing.
type deed struct {
	name string // the word of the table of roles, of the record and of the texts
	path string // behind the send's address
	sure bool   // it can't be undone: a box has to be ticked as well
	ends bool   // it needs a verification that is still open
	code bool   // it needs a verification
	do   func(a *Admin, c echo.Context, s store.Story, act store.AuditEntry) (shown string, err error)
}

// deeds are in the order in which a page offers them.
var deeds = []deed{
	{name: deedReset, path: "reset", do: (*Admin).reset},
	{name: deedResend, path: "resend", ends: true, code: true, do: (*Admin).resend},
	{name: deedCancel, path: "cancel", ends: true, code: true, do: (*Admin).cancel},
	{name: deedReveal, path: "reveal", code: true, do: (*Admin).reveal},
	{name: deedErase, path: "erase", sure: true, do: (*Admin).erase},
}

// failedDeed says why something that was asked for was not done, as a page and as a problem.
type failedDeed struct {
	status int
	key    string // of the texts
	wait   string
}

func (f *failedDeed) Error() string { return "admin: not done: " + f.key }

func (a *Admin) reset(c echo.Context, s store.Story, act store.AuditEntry) (string, error) {
	return "", a.doer.ResetQuota(c.Request().Context(), personOf(s.Send), act)
}

func (a *Admin) erase(c echo.Context, s store.Story, act store.AuditEntry) (string, error) {
	return "", a.doer.Erase(c.Request().Context(), personOf(s.Send), act)
}

func (a *Admin) reveal(c echo.Context, s store.Story, act store.AuditEntry) (string, error) {
	return a.doer.Reveal(c.Request().Context(), *s.Verification, act)
}

func (a *Admin) cancel(c echo.Context, s store.Story, act store.AuditEntry) (string, error) {
	done, err := a.doer.CancelFor(c.Request().Context(), *s.Verification, act)
	if err == nil && !done {
		err = &failedDeed{status: http.StatusConflict, key: "deed.problem.ended"}
	}
	return "", err
}

func (a *Admin) resend(c echo.Context, s store.Story, act store.AuditEntry) (string, error) {
	answer, err := a.doer.ResendFor(c.Request().Context(), *s.Verification, server.ClientIP(c), act)
	err = notWhileLockedOut(err, wordsFor(c))
	if err == nil && !answer.Admitted {
		err = &failedDeed{status: http.StatusTooManyRequests, key: "deed.problem.limited", wait: wordsFor(c).Wait(answer.Quota.RetryAfter())}
	}
	return "", err
}

// notWhileLockedOut explains a send that was refused as its code could not be checked.
func notWhileLockedOut(err error, w texts.Words) error {
	var locked *verification.TooManyChecksError
	if errors.As(err, &locked) {
		return &failedDeed{status: http.StatusTooManyRequests, key: "deed.problem.locked_out", wait: w.Wait(locked.RetryAfter)}
	}
	return err
}

func personOf(s store.Send) support.Person {
	return support.Person{App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, To: s.To}
}

// possible says whether a page offers the deed for a row: one whose recipient was erased or forgotten has none.
func (d deed) possible(s store.Story) bool {
	if d.code && (s.Verification == nil || len(s.Verification.Sealed) == 0) || s.Send.Recipient.IsZero() {
		return false
	}
	return !d.ends || stateOf(*s.Verification, s.Now) == verification.Pending
}

// perform does a deed that a request asks for and tells what came of it.
func (a *Admin) perform(c echo.Context, d deed, s store.Story, reason string) (string, error) {
	if err := support.CheckReason(reason, ""); err != nil {
		return "", err
	}
	if !d.possible(s) {
		return "", &failedDeed{status: http.StatusConflict, key: "deed.problem.ended"}
	}
	act, err := a.act(c, d.name)
	if err != nil {
		return "", err
	}
	act.Target, act.Reason = s.Send.ID.String(), reason
	return d.do(a, c, s, act)
}

// deedPage answers a form of a send's page: back to it when it is done, or the page with what is wrong.
func (a *Admin) deedPage(d deed) echo.HandlerFunc {
	return func(c echo.Context) error {
		form, err := readForm(c)
		if err != nil {
			return err
		}
		s, err := a.story(c.Request().Context(), c.Param("id"))
		if err != nil {
			return err
		}
		n := note{Deed: d.name, Reason: form.Get("reason")}
		if d.sure && form.Get("sure") != "yes" {
			n.Problem = wordsFor(c).Get("deed.problem.sure")
			return a.showSend(c, http.StatusUnprocessableEntity, s, n)
		}
		shown, err := a.perform(c, d, s, n.Reason)
		var status int
		if status, n.Problem = problemOfDeed(wordsFor(c), err); n.Problem != "" {
			return a.showSend(c, status, s, n)
		}
		if err != nil {
			return err
		}
		if shown != "" {
			return a.showSend(c, http.StatusOK, s, note{Deed: d.name, Shown: shown})
		}
		return c.Redirect(http.StatusSeeOther, sendAddress(s.Send.ID)+"?done="+d.name)
	}
}

// problemOfDeed is what a page says of an error that the form's sender can do something about; "" of every other.
func problemOfDeed(w texts.Words, err error) (int, string) {
	var failed *failedDeed
	var bad *verification.InvalidError
	switch {
	case errors.As(err, &failed):
		return failed.status, w.Get(failed.key, "wait", failed.wait)
	case errors.As(err, &bad):
		return http.StatusUnprocessableEntity, or(w.Get("deed.problem."+bad.Reason), bad.Detail)
	case errors.Is(err, verification.ErrUnavailable):
		return http.StatusServiceUnavailable, w.Get("deed.problem.unavailable")
	}
	return 0, ""
}

// deedJSON is the same for scripts: 204, or 200 with what is shown.
func (a *Admin) deedJSON(d deed) echo.HandlerFunc {
	return func(c echo.Context) error {
		var body struct {
			Reason string `json:"reason"`
		}
		if err := server.ReadJSON(c, &body); err != nil {
			return err
		}
		s, err := a.story(c.Request().Context(), c.Param("id"))
		if err != nil {
			return err
		}
		shown, err := a.perform(c, d, s, body.Reason)
		var failed *failedDeed
		if errors.As(err, &failed) {
			return &server.Problem{Kind: server.NotDone, Detail: texts.For("").Get(failed.key, "wait", failed.wait)}
		}
		if err != nil {
			return err
		}
		if shown != "" {
			return c.JSON(http.StatusOK, map[string]string{"to": shown})
		}
		return c.NoContent(http.StatusNoContent)
	}
}

// personJSON does a deed to a recipient whom the body names.
func (a *Admin) personJSON(name string, do func(ctx context.Context, p support.Person, act store.AuditEntry) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		var body struct {
			App     string `json:"app"`
			Channel string `json:"channel"`
			To      string `json:"to"`
			Purpose string `json:"purpose"`
			Reason  string `json:"reason"`
		}
		if err := server.ReadJSON(c, &body); err != nil {
			return err
		}
		p, err := a.doer.Person(body.App, body.Channel, body.To, body.Purpose, body.Reason)
		if err != nil {
			return err
		}
		act, err := a.act(c, name)
		if err != nil {
			return err
		}
		act.Reason = body.Reason
		if err := do(c.Request().Context(), p, act); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}
}

// note is what a send's page says about something that was done, or was not.
type note struct {
	Deed    string
	Done    string // in words
	Problem string
	Shown   string // the full recipient
	Reason  string // as typed, when it was not done
}

// deedView is a form that a send's page offers.
type deedView struct {
	Name, Action, Title, What, Button string
	Sure, Open                        bool
	Problem, Reason                   string
}

func deedViews(w actor, s store.Story, n note, words texts.Words) (list []deedView) {
	for _, d := range deeds {
		if !w.may(d.name) || !d.possible(s) {
			continue
		}
		v := deedView{
			Name: d.path, Action: sendAddress(s.Send.ID) + "/" + d.path, Title: words.Get("deed." + d.name + ".title"),
			What: words.Get("deed." + d.name + ".what"), Button: words.Get("deed." + d.name + ".button"), Sure: d.sure,
		}
		if n.Deed == d.name && n.Problem != "" {
			v.Open, v.Problem, v.Reason = true, n.Problem, n.Reason
		}
		list = append(list, v)
	}
	return list
}

// registerDeeds adds what can be done to a send's recipient or code.
func (a *Admin) registerDeeds(e *echo.Echo) {
	for _, d := range deeds {
		e.POST("/admin/sends/:id/"+d.path, a.deedPage(d), a.toPages(d.name)...)
		if d.code {
			e.POST("/v1/admin/sends/:id/"+d.path, a.deedJSON(d), a.toPrograms(d.name)...)
		}
	}
	e.POST("/v1/admin/quota/reset", a.personJSON(deedReset, a.doer.ResetQuota), a.toPrograms(deedReset)...)
	e.POST("/v1/admin/erase", a.personJSON(deedErase, a.doer.Erase), a.toPrograms(deedErase)...)
}
