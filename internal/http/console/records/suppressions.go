package records

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

const suppressionsPath = "/admin/suppressions"

// suppressionList returns the list of present and past suppressions.
func (handlers *Handlers) suppressionList() layout.List[store.SuppressionFilter, store.Suppression] {
	return layout.List[store.SuppressionFilter, store.Suppression]{
		Name: "suppressions", Path: suppressionsPath, JSON: SuppressionJSON, Read: handlers.Store.Suppressions,
		Parameters: func(f *store.SuppressionFilter) layout.Parameters {
			return layout.Parameters{
				"state":     layout.ActiveOnlyParameter(&f.Active),
				"recipient": layout.RecipientHashParser(&f.Recipient),
			}
		},
		Paging: func(f *store.SuppressionFilter) layout.PagingFields {
			return layout.PagingFields{Limit: &f.Limit, Before: &f.Before}
		},
		Cursor: func(s store.Suppression) store.Cursor { return store.Cursor{At: s.Since, ID: s.ID} },
	}
}

// SuppressionJSON returns a suppression for scripts.
func SuppressionJSON(s store.Suppression, now time.Time) layout.JSONObject {
	return layout.JSONObject{
		"id": s.ID, "app": layout.OrNull(s.App), "channel": s.Channel, "to": s.To, "recipient": s.Recipient,
		"reason": s.Cause,
		"detail": layout.OrNull(s.Detail), "send_id": layout.OrNull(s.Send), "by": layout.OrNull(s.By),
		"since": layout.Timestamp(s.Since),
		"until": layout.Timestamp(s.Until), "active": s.Active(now), "lifted_at": layout.Timestamp(s.LiftedAt),
		"lifted_by": layout.OrNull(s.LiftedBy), "lifted_reason": layout.OrNull(s.LiftedWhy),
		"server": layout.OrNull(s.Server), "words": layout.OrNull(s.Words), "held_until": nil,
	}
}

// suppressionsView is the data of the template suppressions.html.
type suppressionsView struct {
	layout.Page
	layout.PaginatedRows[store.SuppressionFilter, store.Suppression]
	MayChange bool // the reader may add and lift suppressions
	Outcome   explain.ActOutcome
	Problem   string     // what was wrong with a form
	Typed     url.Values // the fields of the refused form, without the recipient
}

// FormRefused reports whether the form that lifts a suppression was refused.
func (v suppressionsView) FormRefused(s store.Suppression) bool {
	return v.Typed.Get("address") == s.Address.String() && v.Typed.Get("channel") == string(s.Channel) &&
		v.Typed.Get("app") == s.App
}

func (handlers *Handlers) suppressionsPage(c echo.Context) error {
	return handlers.showSuppressions(c, http.StatusOK, c.Request().URL.RawQuery, nil, "")
}

func (handlers *Handlers) showSuppressions(c echo.Context, status int, raw string, typed url.Values, problem string) error {
	p, err := handlers.suppressionList().PageOrMistake(c, withoutDone(raw), store.SuppressionFilter{Active: true})
	if err != nil {
		return err
	}
	may := auth.ActorOf(c).May(auth.ActionSuppress) && auth.ActorOf(c).May(auth.ActionLiftSuppression)
	v := suppressionsView{
		Page: layout.NewPage(c, "suppressions.title", "suppressions"), PaginatedRows: p, MayChange: may, Problem: problem, Typed: typed,
	}
	if p.Filter.Recipient != nil && problem == "" {
		v.Outcome = suppressionOutcome(c.QueryParam(doneParameter), p.Rows, p.Now, v.W)
	}
	return handlers.Layout.Show(c, p.Mistake.StatusOr(status), "suppressions", v)
}

// doneParameter is the query parameter that an action adds when it redirects to a list. Its value
// is the action or, in the list of paused prefixes, the ID of the lifted pause. The page then
// describes the state from the rows that it reads.
const doneParameter = "done"

// withoutDone returns a raw query without doneParameter, which no list filters by.
func withoutDone(raw string) string {
	values, err := url.ParseQuery(raw)
	if err != nil || !values.Has(doneParameter) {
		return raw
	}
	values.Del(doneParameter)
	return values.Encode()
}

// suppressionOutcome describes the state of a recipient after a suppression was added or lifted.
// rows are the recipient's suppressions on the page, the newest first.
func suppressionOutcome(act string, rows []store.Suppression, now time.Time, w texts.Words) explain.ActOutcome {
	i := slices.IndexFunc(rows, func(s store.Suppression) bool { return s.Active(now) })
	key, tone := "", explain.Warn
	switch {
	case len(rows) == 0:
		return explain.ActOutcome{}
	case act == auth.ActionSuppress && i >= 0:
		key, tone = "holds", explain.Good
	case act == auth.ActionSuppress:
		key = "holds.not"
	case act == auth.ActionLiftSuppression && i >= 0:
		key = "lifted.not"
	case act == auth.ActionLiftSuppression && rows[0].LiftedAt.IsZero():
		key = "ended"
	case act == auth.ActionLiftSuppression:
		key, tone = "lifted", explain.Good
	default:
		return explain.ActOutcome{}
	}
	s := rows[max(0, i)]
	return explain.ActOutcome{Tone: tone, Text: w.Sentence("suppressions.done."+key, texts.Strong("to", s.To),
		texts.Plain("app", cmp.Or(s.App, w.Get("suppressions.every"))), texts.AtTime("since", s.Since), texts.AtTime("until", s.Until),
		texts.Plain("cause", explain.SuppressionSummary(s, w)))}
}

// OpensLiftForm reports whether the page is about one recipient, has exactly one active
// suppression, and reports no outcome and no problem. The form that lifts this suppression is then
// open.
func (v suppressionsView) OpensLiftForm() bool {
	active := 0
	for _, s := range v.Rows {
		if s.Active(v.Now) {
			active++
		}
	}
	return v.Filter.Recipient != nil && active == 1 && v.Outcome.Text == nil && v.Problem == ""
}

// ReasonText returns why a recipient is suppressed.
func (v suppressionsView) ReasonText(s store.Suppression) string {
	return explain.SuppressionSummary(s, v.W)
}

// State returns the label of a suppression: active, lifted or ended.
func (v suppressionsView) State(s store.Suppression) explain.StateLabel {
	return suppressionOrPauseLabel(s.Active(v.Now), !s.LiftedAt.IsZero(), "suppressions.active", v.W)
}

// StateText returns a sentence about who or what lifted a suppression, when and why; nil if it was
// not lifted.
func (v suppressionsView) StateText(s store.Suppression) texts.Sentence {
	if s.LiftedBy == "" && (s.LiftedWhy == store.LiftedAccepted || s.LiftedWhy == store.LiftedBurst) {
		return v.W.Sentence("suppressions."+s.LiftedWhy, texts.AtTime("at", s.LiftedAt), texts.Strong("server", s.Server),
			texts.Plain("words", s.Words))
	}
	return liftedSentence(s.LiftedAt, s.LiftedBy, s.LiftedWhy, v.W)
}

// suppressionOrPauseLabel returns a label with the state of a suppression or a pause: active,
// lifted or ended. holds is the key of the text that the label shows for the state active. That
// state has the sign and the colour of a refusal, since it stops messages.
func suppressionOrPauseLabel(active, lifted bool, holds string, w texts.Words) explain.StateLabel {
	switch {
	case active:
		return explain.StateLabel{Sign: "‖", Word: w.Get(holds), Tone: explain.Warn}
	case lifted:
		return explain.StateLabel{Sign: "–", Word: w.Get("suppressions.lifted"), Tone: explain.Neutral}
	}
	return explain.StateLabel{Sign: "–", Word: w.Get("suppressions.ended"), Tone: explain.Neutral}
}

// liftedSentence returns a sentence about who lifted a suppression or a pause, when and why. If at
// is the zero time, liftedSentence returns nil.
func liftedSentence(at time.Time, actor, why string, w texts.Words) texts.Sentence {
	if at.IsZero() {
		return nil
	}
	return w.Sentence("suppressions.after", texts.Strong("who", cmp.Or(actor, "–")), texts.AtTime("at", at),
		texts.Plain("why", cmp.Or(why, "–")))
}

// suppressBody is the body of a request to suppress a recipient. The recipient is never in a URL.
type suppressBody struct {
	support.SuppressRequest
	Seconds *int64 `json:"for"`
}

// suppress suppresses a recipient and writes the audit entry in the same call of the store.
func (handlers *Handlers) suppress(c echo.Context, w suppressBody) (store.Suppression, error) {
	if w.Seconds != nil {
		maxSeconds := int64(support.MaxSuppressionPeriod / time.Second)
		if *w.Seconds < 1 || *w.Seconds > maxSeconds {
			return store.Suppression{}, fault.Invalid("for", "out_of_range",
				"A suppression lasts for 1 s at least and 366 days at most.")
		}
		w.For = time.Duration(*w.Seconds) * time.Second
	}
	act, err := handlers.Auth.NewAuditEntry(c, auth.ActionSuppress)
	if err != nil {
		return store.Suppression{}, err
	}
	return handlers.Administration.Suppress(c.Request().Context(), w.SuppressRequest, act)
}

func (handlers *Handlers) suppressJSON(c echo.Context) error {
	var w suppressBody
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	s, err := handlers.suppress(c, w)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, SuppressionJSON(s, s.Since))
}

// suppressForm handles the form that suppresses a recipient. It redirects to the list. If the form
// is wrong, suppressForm shows the list again with the problem. liftSuppressionsForm answers in the
// same way.
func (handlers *Handlers) suppressForm(c echo.Context, form url.Values) error {
	w := suppressBody{SuppressRequest: support.SuppressRequest{
		Channel: form.Get("channel"),
		To:      strings.TrimSpace(form.Get("to")),
		App:     form.Get("app"), Reason: strings.TrimSpace(form.Get("reason")),
	}}
	if days := form.Get("days"); days != "" {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil {
			n = -1
		}
		w.Seconds = new(n * int64(24*time.Hour/time.Second))
	}
	s, err := handlers.suppress(c, w)
	return handlers.answerSuppressionForm(c, form, auth.ActionSuppress, s.Recipient, err)
}

// liftSuppressions ends the suppressions of a recipient and writes the audit entry in the same call
// of the store.
func (handlers *Handlers) liftSuppressions(c echo.Context, l support.LiftSuppressionsRequest) ([]store.Suppression, error) {
	act, err := handlers.Auth.NewAuditEntry(c, auth.ActionLiftSuppression)
	if err != nil {
		return nil, err
	}
	return handlers.Administration.LiftSuppressions(c.Request().Context(), l, act)
}

func (handlers *Handlers) liftSuppressionsJSON(c echo.Context) error {
	var l support.LiftSuppressionsRequest
	if err := server.ReadJSON(c, &l); err != nil {
		return err
	}
	list, err := handlers.liftSuppressions(c, l)
	if err != nil {
		return err
	}
	lifted := layout.JSONObjects(list, func(s store.Suppression) layout.JSONObject { return SuppressionJSON(s, handlers.Now()) })
	return c.JSON(http.StatusOK, layout.JSONObject{"lifted": lifted})
}

func (handlers *Handlers) liftSuppressionsForm(c echo.Context, form url.Values) error {
	h, err := recipient.ParseHash(form.Get("address"))
	if err != nil {
		return fault.Invalid("address", "invalid", "This form does not come from the list of suppressions: open the list again.")
	}
	ch, err := recipient.ParseChannel(form.Get("channel"))
	if err != nil {
		return fault.Invalid("channel", "invalid", "This form does not come from the list of suppressions: open the list again.")
	}
	reason := strings.TrimSpace(form.Get("reason"))
	list, err := handlers.liftSuppressions(c,
		support.LiftSuppressionsRequest{Channel: string(ch), Address: h, App: form.Get("app"), Reason: reason})
	of, _ := recipient.ParseHash(form.Get("recipient")) // set if the list of this recipient shows the row
	if len(list) > 0 {
		of = list[0].Recipient
	}
	return handlers.answerSuppressionForm(c, form, auth.ActionLiftSuppression, of, err)
}

// answerSuppressionForm redirects to the list of the recipient's suppressions, which describes the
// state after the action.
func (handlers *Handlers) answerSuppressionForm(c echo.Context, typed url.Values, act string, of recipient.Hash, err error) error {
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
		w := layout.Words(c)
		problem := actionProblemText(w, "suppressions", bad, support.MaxSuppressionReasonLength)
		if typed.Has("to") {
			typed.Del("to") // a refused form does not show a full recipient again
			problem += w.Get("sentence.space") + w.Get("suppressions.problem.again")
		}
		return handlers.showSuppressions(c, http.StatusUnprocessableEntity, c.Request().URL.RawQuery, typed, problem)
	}
	if err != nil {
		return err
	}
	if of.IsZero() { // the recipient's hash was deleted, so there is no list of this recipient alone
		return c.Redirect(http.StatusSeeOther, suppressionsPath)
	}
	to := url.Values{"recipient": {of.String()}, "state": {"all"}, doneParameter: {act}}
	return c.Redirect(http.StatusSeeOther, suppressionsPath+"?"+to.Encode())
}
