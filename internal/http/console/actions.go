package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
)

// sendAction is an action that the page of a send offers. The function do performs the action. If
// the action reveals the recipient, do returns the full recipient in shown. Otherwise shown is "".
type sendAction struct {
	Name              string // the action's name in the roles, the audit log and the keys of texts
	Path              string // the last part of the action's URL, after the send's
	Key               string // the key on the keyboard that follows the link to the action's form
	Sure              bool   // the action can't be undone, so its form has a box to tick
	needsPending      bool   // the action is only possible while the verification is pending
	needsVerification bool   // the action is only possible while the database has the verification and its recipient
	needsOwnCode      bool   // the service must have made the code; it cannot resend a caller's code, which is not stored
	do                func(a *Console, c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error)
}

// sendActions has the actions in the order in which a page offers them: the first two as buttons,
// the others in a menu.
var sendActions = []sendAction{
	{Name: auth.ActionResend, Path: "resend", Key: "s", needsPending: true, needsVerification: true, needsOwnCode: true, do: (*Console).resend},
	{Name: auth.ActionResetQuota, Path: "reset", Key: "r", do: (*Console).resetQuota},
	{Name: auth.ActionRevealRecipient, Path: "reveal", Key: "v", needsVerification: true, do: (*Console).revealRecipient},
	{Name: auth.ActionExportRecipient, Path: "export", Key: "x", do: (*Console).exportRecipient},
	{Name: auth.ActionCancel, Path: "cancel", Key: "d", Sure: true, needsPending: true, needsVerification: true, do: (*Console).cancelVerification},
	{Name: auth.ActionEraseRecipient, Path: "erase", Key: "e", Sure: true, do: (*Console).eraseRecipient},
}

// actionError is the reason why an action was not done. Pages show its text; scripts get an HTTP
// problem.
type actionError struct {
	status int
	key    string        // the key of the texts
	reason string        // if a send failed at once: its reason
	wait   time.Duration // time until the action can be done; 0: another reason
}

// sendFailedKey is the key for a send that was admitted and failed at once. The send's page
// describes the failure itself.
const sendFailedKey = "action.problem.failed"

func (a *actionError) Error() string { return "console: action not done: " + a.key }

func (a *actionError) text(w texts.Words) string {
	return w.Get(a.key, "wait", w.Wait(a.wait), "reason", w.Or("reason", a.reason))
}

func (console *Console) resetQuota(c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error) {
	return "", console.Administration.ResetQuota(c.Request().Context(), targetOf(s.Send), act)
}

func (console *Console) exportRecipient(c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error) {
	return "", console.exportPerson(c, targetOf(s.Send), act)
}

func (console *Console) eraseRecipient(c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error) {
	server.SetAnswerTime(c, support.EraseTimeout+writeTimeout)
	return "", console.Administration.EraseRecipient(c.Request().Context(), targetOf(s.Send), act)
}

func (console *Console) revealRecipient(c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error) {
	return console.Administration.RevealRecipient(c.Request().Context(), *s.Verification, act)
}

func (console *Console) cancelVerification(c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error) {
	done, err := console.Administration.CancelVerification(c.Request().Context(), *s.Verification, act)
	if err == nil && !done {
		err = &actionError{status: http.StatusConflict, key: "action.problem.ended"}
	}
	return "", err
}

func (console *Console) resend(c echo.Context, s store.SendDetails, act store.AuditEntry) (shown string, err error) {
	answer, err := console.Administration.Resend(c.Request().Context(), *s.Verification, server.ClientIP(c), act)
	var locked *verification.FailedCheckLimitError
	switch {
	case errors.As(err, &locked):
		err = &actionError{
			status: http.StatusTooManyRequests, key: "action.problem.locked_out",
			wait: locked.RetryAfter,
		}
	case err == nil && !answer.Admitted:
		err = &actionError{status: http.StatusTooManyRequests, key: "action.problem.limited", wait: answer.Quota.RetryAfter()}
	case err == nil && answer.View.Send.Status == store.Failed:
		err = &actionError{status: http.StatusConflict, key: sendFailedKey, reason: answer.View.Send.Reason}
	}
	return "", err
}

func targetOf(s store.SendOrRefusal) support.Target {
	return support.Target{App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, To: s.To}
}

// appliesTo reports whether a page offers the action for the send. If the hash of the send's
// recipient was deleted, the page offers no action. If the verification no longer has the encrypted
// recipient, the page offers no action that needs the verification.
func (action sendAction) appliesTo(s store.SendDetails) bool {
	if action.needsVerification && (s.Verification == nil || len(s.Verification.Sealed) == 0) || s.Send.Recipient.IsZero() {
		return false
	}
	if action.needsOwnCode && s.Verification.CallerChecks {
		return false
	}
	return !action.needsPending || verification.StateOf(*s.Verification, s.Now) == verification.Pending
}

// performAction performs the requested action and returns what the page shows of the result. The
// action also writes the audit entry.
func (console *Console) performAction(c echo.Context, action sendAction, s store.SendDetails, reason string) (shown string, err error) {
	if err := support.CheckReason(reason, ""); err != nil {
		return "", err
	}
	if !action.appliesTo(s) {
		return "", &actionError{status: http.StatusConflict, key: "action.problem.ended"}
	}
	act, err := console.auth.NewAuditEntry(c, action.Name)
	if err != nil {
		return "", err
	}
	act.Target, act.Reason = s.Send.ID.String(), reason
	return action.do(console, c, s, act)
}

// actionForm returns the handler of a form on a send's page. If the action was done, the handler
// redirects to the page, unless the action revealed the recipient or has written the response
// itself. If the action was not done, the handler shows the page with the problem.
func (console *Console) actionForm(action sendAction) echo.HandlerFunc {
	return layout.FormHandler(func(c echo.Context, form url.Values) error {
		s, err := console.readStory(c.Request().Context(), c.Param("id"))
		if err != nil {
			return err
		}
		result := actionResult{Action: action.Name, Reason: form.Get("reason")}
		if action.Sure && form.Get("sure") != "yes" {
			result.Problem = layout.Words(c).Get("action.problem.sure")
			return console.showSend(c, http.StatusUnprocessableEntity, s, result)
		}
		shown, err := console.performAction(c, action, s, result.Reason)
		if c.Response().Committed { // the action has written the response
			return err
		}
		status, problem := console.formProblem(c, err)
		if problem != "" {
			// the action may have changed rows, for example by a send that failed
			if again, unread := console.readStory(c.Request().Context(), c.Param("id")); unread == nil {
				s = again
			}
			if failed, ok := errors.AsType[*actionError](err); ok && failed.key == sendFailedKey {
				return console.showSend(c, status, s, actionResult{Action: action.Name, done: true})
			}
			result.Problem = problem
			return console.showSend(c, status, s, result)
		}
		if err != nil {
			return err
		}
		if shown != "" {
			return console.showSend(c, http.StatusOK, s, actionResult{Action: action.Name, FullRecipient: shown})
		}
		return c.Redirect(http.StatusSeeOther, explain.SendPageAddress(s.Send.ID)+"?done="+action.Name)
	})
}

// formProblem returns the status and the text of an error that a page shows beside a form. For nil
// and for any other error, it returns 0 and "". If the action can be done after a wait, formProblem
// also sets the header Retry-After.
func (console *Console) formProblem(c echo.Context, err error) (status int, text string) {
	w := layout.Words(c)
	var failed *actionError
	var bad *fault.InvalidError
	switch {
	case errors.As(err, &failed):
		server.SetRetryAfter(c, failed.wait)
		return failed.status, failed.text(w)
	case errors.As(err, &bad):
		return server.InvalidField.Status,
			cmp.Or(layout.ReasonProblem(w, bad, support.MaxReasonLength), bad.Detail)
	case errors.Is(err, fault.Unavailable):
		server.LogFailure(c.Request().Context(), console.Logger, err)
		return server.Unavailable.Status, w.Get("action.problem.unavailable")
	}
	return 0, ""
}

// actionJSON returns the handler of an action for scripts. The handler answers 200 if there is a
// result to return, otherwise 204.
func (console *Console) actionJSON(action sendAction) echo.HandlerFunc {
	return func(c echo.Context) error {
		var body struct {
			Reason string `json:"reason"`
		}
		if err := server.ReadJSON(c, &body); err != nil {
			return err
		}
		s, err := console.readStory(c.Request().Context(), c.Param("id"))
		if err != nil {
			return err
		}
		shown, err := console.performAction(c, action, s, body.Reason)
		if failed, ok := errors.AsType[*actionError](err); ok {
			return &server.Problem{Kind: server.NotDoneKind, Detail: failed.text(texts.ConsoleTextsFor("")), Wait: failed.wait}
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

// recipientActionJSON is recipientJSON for actions without a result. The handler answers 204.
func (console *Console) recipientActionJSON(name string,
	do func(context.Context, support.Target, store.AuditEntry) error,
) echo.HandlerFunc {
	return console.recipientJSON(name, func(c echo.Context, p support.Target, act store.AuditEntry) error {
		server.SetAnswerTime(c, support.EraseTimeout+writeTimeout) // longer than any other action takes
		if err := do(c.Request().Context(), p, act); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}

// recipientJSON returns the handler of an action on a recipient. The request's body has the
// recipient and a reason. The function do performs the action and answers the request.
func (console *Console) recipientJSON(name string, do func(echo.Context, support.Target, store.AuditEntry) error) echo.HandlerFunc {
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
		p, err := console.Administration.ParseTarget(body.App, body.Channel, body.To, body.Purpose, body.Reason)
		if err != nil {
			return err
		}
		act, err := console.auth.NewAuditEntry(c, name)
		if err != nil {
			return err
		}
		act.Reason = body.Reason
		return do(c, p, act)
	}
}

// actionResult is the result of an action, as the send's page shows it.
type actionResult struct {
	Action        string
	done          bool // the action was done, or at least begun; the page reads what became of it
	Outcome       explain.ActOutcome
	Problem       string
	FullRecipient string // set after the action reveal
	Reason        string // as typed; empty if the action was done
}

// pageKey is a key of the keyboard with the text of its action.
type pageKey struct{ Key, Text string }

// keysOf returns the keys that work on the page of a send or recipient.
func keysOf(actions []sendAction, v *explain.Verdict, opens bool, w texts.Words) (keys []pageKey) {
	if v == nil {
		return nil
	}
	if v.Reply.Text != "" {
		keys = append(keys, pageKey{"c", w.Get("keys.copy")})
	}
	if opens {
		keys = append(keys, pageKey{"o", w.Get("person.newest")})
	}
	if v.Suppressed {
		keys = append(keys, pageKey{"l", w.Get("action.suppressed")})
	}
	for _, action := range actions {
		keys = append(keys, pageKey{action.Key, w.Get("action." + string(action.Name) + ".title")})
	}
	return keys
}

// actionsFor returns the actions that a send's page offers an account.
func actionsFor(who auth.Actor, s store.SendDetails) (list []sendAction) {
	for _, action := range sendActions {
		if who.May(action.Name) && action.appliesTo(s) {
			list = append(list, action)
		}
	}
	return list
}
