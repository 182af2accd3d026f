package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/quota"
	"sendcode/web"
)

// sendView is the data of the page of one send.
type sendView struct {
	layout.Page
	Verdict explain.Verdict
	Send    sendRow
	Code    string // state of the verification, in words; empty: the send has none
	Support string // the support reference
	Details string // what the code confirms; empty: not given
	Trial   string // names of the rules in mode observe that would have refused the send
	Line    []explain.TimelineEntry
	Quota   quotaView
	Note    actionResult
	Actions []sendAction
	Action  sendAction // the action whose form is shown; zero: no form is shown
	Rows    []sendRow  // always empty, so the keys for rows do nothing on this page
	Keys    []pageKey
}

// quotaView shows the present decisions of a recipient's rules.
type quotaView struct {
	Rows   []web.Pips
	As     texts.Sentence // says for which app and purpose, and when, the quota was read
	Reason string         // why there are no rows
}

func (console *Console) sendPage(c echo.Context) error {
	s, err := console.readStory(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	n := actionResult{Action: c.QueryParam("done")}
	n.done = n.Action != ""
	return console.showSend(c, http.StatusOK, s, n)
}

func (console *Console) showSend(c echo.Context, status int, s store.SendDetails, result actionResult) error {
	w := layout.Words(c)
	verdict, quota, facts, err := console.verdictAndQuota(c.Request().Context(), s, w)
	if err != nil {
		return err
	}
	if result.done {
		if explain.Act(result.Action) == explain.QuotaReset && s.Send.Status != store.Refused { // for a refusal, facts already has it
			console.addStrangers(c.Request().Context(), s.Send, &facts)
		}
		result.Outcome = explain.Done(explain.Act(result.Action), s, facts, w)
	}
	v := sendView{
		Page: layout.NewPage(c, "", "sends"), Verdict: verdict, Send: sendRow{SendOrRefusal: s.Send, W: w},
		Support: store.SupportReference(s.Send.ID),
		Trial:   strings.Join(s.Send.Observed, w.Get("list.comma")), Line: explain.Timeline(s, w), Quota: quota,
		Note: result, Actions: actionsFor(auth.ActorOf(c), s),
	}
	if s.Verification != nil {
		v.Details = s.Verification.Details
	}
	v.Actions = withoutUselessResend(v.Actions, verdict)
	v.Keys = keysOf(v.Actions, &verdict, false, w)
	for _, action := range v.Actions {
		if action.Path == c.QueryParam("do") || action.Name == result.Action && result.Problem != "" {
			v.Action = action
		}
	}
	v.Title = verdict.What.Local()
	if result.Outcome.Text != nil { // a screen reader reads the title first
		v.Title = result.Outcome.Text.Local()
	}
	if s.Verification != nil {
		v.Code = "–"
		if state, shown := shownCodeState(*s.Verification, s.Send, s.Now); shown {
			v.Code = w.Get("outcome.code." + string(state))
		}
	}
	return console.layout.Show(c, status, "send", v)
}

// withoutUselessResend returns the actions. If a suppression would stop another message, too, it
// leaves out the action that sends a message.
func withoutUselessResend(actions []sendAction, v explain.Verdict) []sendAction {
	if !v.Suppressed {
		return actions
	}
	return slices.DeleteFunc(actions, func(action sendAction) bool { return action.Name == auth.ActionResend })
}

// verdictAndQuota returns the verdict on a send, and the quota that its recipient has now. If the
// limiter fails, only the quota is missing.
func (console *Console) verdictAndQuota(ctx context.Context, s store.SendDetails, w texts.Words) (explain.Verdict,
	quotaView, explain.VerdictFacts, error,
) {
	decision, quotaErr := console.quotaOf(ctx, s.Send)
	if quotaErr != nil && !errors.Is(quotaErr, errSeveralRecipients) {
		server.LogFailure(ctx, console.Logger, quotaErr)
	}
	known, err := console.readVerdictFacts(ctx, s, decision, quotaErr)
	return explain.Judge(s, known, w), quotaViewOf(s.Send, decision, quotaErr, w), known, err
}

// addStrangers adds the present decision for a stranger, if strangers wait longer than people whom
// the back end knows. If the limiter does not answer, it adds nothing.
func (console *Console) addStrangers(ctx context.Context, s store.SendOrRefusal, known *explain.VerdictFacts) {
	if known.Quota == nil {
		return
	}
	strangers, err := console.Administration.Codes.RecipientQuota(ctx, s.App, s.Channel, s.Purpose, s.Recipient, store.StrangerClass)
	if err == nil && strangers.RetryAfter() > known.Quota.RetryAfter() {
		known.Strangers = &strangers
	}
}

// errSeveralRecipients is the error for the quota of a row that stands for several recipients.
var errSeveralRecipients = errors.New("console: the row stands for several recipients")

// quotaOf returns how the recipient's rules would decide now about another send like s. It counts
// nothing.
func (console *Console) quotaOf(ctx context.Context, s store.SendOrRefusal) (quota.Decision, error) {
	if s.Recipients > 0 {
		return quota.Decision{}, errSeveralRecipients
	}
	return console.Administration.Codes.RecipientQuota(ctx, s.App, s.Channel, s.Purpose, s.Recipient, store.SecretKeyClass)
}

func quotaViewOf(s store.SendOrRefusal, d quota.Decision, err error, w texts.Words) quotaView {
	var bad *fault.InvalidError
	switch {
	case errors.Is(err, errSeveralRecipients):
		return quotaView{Reason: w.Get("quota.several")}
	case errors.As(err, &bad):
		return quotaView{Reason: w.Get("quota.gone")}
	case err != nil:
		return quotaView{Reason: w.Get("quota.away")}
	}
	as := w.Sentence("quota.now", texts.Plain("app", s.App), texts.Plain("purpose", s.Purpose), texts.AtTime("at", d.At))
	return quotaView{Rows: quotaPips(d, w), As: as}
}

// readVerdictFacts reads the data that the verdict needs in addition to s. decision is the present
// quota of the recipient. If quotaErr is not nil, this quota is unknown.
func (console *Console) readVerdictFacts(ctx context.Context, s store.SendDetails, decision quota.Decision,
	quotaErr error) (known explain.VerdictFacts,
	err error,
) {
	known.ResendOther = console.ResendOther
	if quotaErr == nil {
		known.Quota = &decision
	}
	if p, paused := console.Administration.Paused(s.Send.Channel, s.Send.Purpose); paused {
		known.Pause = &p
	}
	if v := s.Verification; !s.Send.Recipient.IsZero() && (s.Send.Status == store.Refused || v != nil && v.ExpiresAt.After(s.Now)) {
		if known.Locks, err = console.Administration.Lockouts(ctx, s.Send.App, s.Send.Channel, s.Send.Recipient); err != nil {
			return known, err
		}
	}
	if known.Suppression, err = console.laterSuppression(ctx, s); err != nil {
		return known, err
	}
	if s.Send.Status == store.Refused {
		known.RuleScope = console.refusingScope(s.Send)
		console.addStrangers(ctx, s.Send, &known)
		if known.CodeBefore, err = console.codeBeforeRefusal(ctx, s); err != nil {
			return known, err
		}
	}
	if known.Newer, err = console.latestIfNewer(ctx, s.Send); err != nil {
		return known, err
	}
	known.Earlier, err = console.sendBeforeRefusal(ctx, s.Send)
	return known, err
}

// sendBeforeRefusal returns the newest earlier send to the recipient of a refusal, for any purpose
// of any app. If s is not a refusal, or if there is no such send, it returns nil.
func (console *Console) sendBeforeRefusal(ctx context.Context, s store.SendOrRefusal) (*store.SendOrRefusal, error) {
	if s.Status != store.Refused || s.Recipient.IsZero() {
		return nil, nil
	}
	rows, err := console.DB.Sends(ctx, store.Filter{Recipient: &s.Recipient, SendsOnly: true, Before: new(cursorOf(s.Send)), Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// laterSuppression returns a suppression of the row's recipient that is in force now, unless one in
// the row's story is in force. If the exact spelling of the address is not known, as for a refusal,
// a suppression of any spelling of the mailbox counts.
func (console *Console) laterSuppression(ctx context.Context, s store.SendDetails) (*store.Suppression, error) {
	holds := func(x store.Suppression) bool { return x.Active(s.Now) }
	if s.Send.Recipient.IsZero() || s.Send.Recipients > 0 || slices.ContainsFunc(s.Suppressions, holds) {
		return nil, nil
	}
	var address recipient.Hash
	if s.Verification != nil {
		if to, err := console.Administration.Vault.OpenRecipient(*s.Verification); err == nil {
			address = console.Administration.Vault.SuppressionHash(to)
		}
	}
	list, err := console.Administration.HoldingSuppressions(ctx, s.Send.App, s.Send.Channel, s.Send.Recipient, address)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// refusingScope returns the scope of the rule that refused a request, if it is a rule of the
// purpose's policy or a built-in rule on clients. Otherwise it returns "".
func (console *Console) refusingScope(s store.SendOrRefusal) quota.Scope {
	for _, p := range console.Administration.Policies() {
		i := slices.IndexFunc(p.Rules, func(r policy.RuleInForce) bool { return r.Name == s.BlockedBy })
		if i >= 0 && slices.Contains(p.Purposes, s.Purpose) {
			return p.Rules[i].Scope
		}
	}
	builtIn, _ := console.Administration.Policy.Get().BuiltInRules()
	for _, r := range builtIn {
		if r.Name == s.BlockedBy && policy.CountsByClient(r.Scope) {
			return r.Scope
		}
	}
	return ""
}

// latestIfNewer returns the newest request of the same recipient for the same app, channel and
// purpose. If s is the newest request, or if the recipient's hash was deleted, it returns nil.
func (console *Console) latestIfNewer(ctx context.Context, s store.SendOrRefusal) (*store.SendOrRefusal, error) {
	if s.Recipient.IsZero() {
		return nil, nil
	}
	rows, err := console.DB.Sends(ctx, store.Filter{
		Recipient: &s.Recipient, App: s.App, Channel: s.Channel,
		Purpose: s.Purpose, Limit: 1,
	})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0 || rows[0].ID == s.ID:
		return nil, nil
	}
	return &rows[0], nil
}

// codeBeforeRefusal returns the verification of a send before the refused request s. It chooses the
// newest send in s.Related that is for the same purpose and whose message may have arrived. If
// there is no such send, or if the refusal itself belongs to a verification, it returns nil.
func (console *Console) codeBeforeRefusal(ctx context.Context, s store.SendDetails) (*store.Verification, error) {
	if s.Verification != nil {
		return nil, nil
	}
	for _, row := range slices.Backward(s.Related) {
		if !explain.MayHaveReached(row) || row.VerificationID == "" || row.Purpose != s.Send.Purpose {
			continue
		}
		its, err := console.DB.SendDetails(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		return its.Verification, nil
	}
	return nil, nil
}
