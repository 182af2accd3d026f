package records

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// suppressionsView is the page of suppressed recipients.
type suppressionsView struct {
	layout.Page
	Rows    []suppressionView
	May     bool   // the reader may add and lift
	Problem string // what was wrong with a form
	Typed   wish   // what the form held then; the recipient is asked for again
	listing.Pages
	Other  string // address of the list of the other state
	Active bool   // only those that hold now
	All    string // address without the recipient; empty: there is none
}

type suppressionView struct {
	Since, Until    texts.Clock
	To, Person      string // masked; address of everything of this recipient, empty: they were forgotten
	Why, App        string
	Send            string // page of the send that it came of
	State           explain.Label
	After           texts.Sentence // who lifted it, when and why
	Active          bool
	Channel         string
	Address, ForApp string // for the form that lifts it
}

func (a *Records) suppressionsPage(c echo.Context) error {
	return a.showSuppressions(c, http.StatusOK, wish{Channel: string(recipient.Email)}, "")
}

func (a *Records) showSuppressions(c echo.Context, status int, typed wish, problem string) error {
	raw := c.Request().URL.RawQuery
	if c.Request().Method == http.MethodPost {
		raw = ""
	}
	p, err := a.suppressions().Find(c.Request().Context(), raw, store.SuppressionFilter{Active: true})
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := suppressionsView{
		Page: layout.NewPage(c, "suppressions.title", "suppressions"), Pages: p.Pages(), Active: p.Filter.Active, Problem: problem, Typed: typed,
		May: auth.ActorOf(c).May(auth.ActionSuppress) && auth.ActorOf(c).May(auth.ActionLift), Other: p.With("state", "all"),
	}
	for _, s := range p.Rows {
		v.Rows = append(v.Rows, suppressionViewOf(s, p.Now, w))
	}
	if !v.Active {
		v.Other = p.With("state", "")
	}
	if p.Filter.Recipient != nil {
		v.All = p.With("recipient", "")
	}
	return a.Layout.Show(c, status, "suppressions", v)
}

func suppressionViewOf(s store.Suppression, now time.Time, w texts.Words) suppressionView {
	v := suppressionView{
		Since: w.Clock(s.Since), Until: w.Clock(s.Until), To: s.To, Person: explain.RecipientAddress(s.Recipient),
		Why: explain.Cause(s, w), App: cmp.Or(s.App, w.Get("suppressions.every")), Active: s.Active(now), Channel: string(s.Channel),
		Address: s.Address.String(), ForApp: s.App,
	}
	if s.Send != uuid.Nil {
		v.Send = explain.SendAddress(s.Send)
	}
	v.State, v.After = heldOrLifted(v.Active, w.Get("suppressions.active"), s.LiftedAt, s.LiftedBy, s.LiftedWhy, w)
	return v
}

// heldOrLifted returns the state of a suppression or pause as a label, and the sentence that says who lifted it.
func heldOrLifted(active bool, holds string, liftedAt time.Time, by, why string, w texts.Words) (explain.Label, texts.Sentence) {
	switch {
	case active:
		return explain.Label{Sign: "✕", Word: holds, Tone: explain.Bad}, nil
	case !liftedAt.IsZero():
		return explain.Label{Sign: "✓", Word: w.Get("suppressions.lifted"), Tone: explain.Good},
			w.Tell("suppressions.after", texts.Strong("who", cmp.Or(by, "–")), texts.At("at", liftedAt), texts.Plain("why", cmp.Or(why, "–")))
	}
	return explain.Label{Sign: "–", Word: w.Get("suppressions.ended"), Tone: explain.Still}, nil
}

// suppressForm and liftForm redirect to the list, or show it again with what was wrong in the form.
func (a *Records) suppressForm(c echo.Context, form url.Values) error {
	typed := wish{Channel: form.Get("channel"), To: strings.TrimSpace(form.Get("to")), App: form.Get("app"),
		Reason: strings.TrimSpace(form.Get("reason"))}
	if days := form.Get("days"); days != "" {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil {
			n = -1
		}
		seconds := n * int64(24*time.Hour/time.Second)
		typed.For = &seconds
	}
	_, err := a.suppress(c, typed)
	return a.backToSuppressions(c, typed, err)
}

func (a *Records) liftForm(c echo.Context, form url.Values) error {
	h, err := recipient.ParseHash(form.Get("address"))
	if err != nil {
		return layout.Invalid("address", "invalid", "This form was not made by the list.")
	}
	ch, err := recipient.ParseChannel(form.Get("channel"))
	if err != nil {
		return layout.Invalid("channel", "invalid", "This form was not made by the list.")
	}
	_, err = a.lift(c, support.LiftRequest{Channel: string(ch), Address: h, App: form.Get("app"), Why: strings.TrimSpace(form.Get("reason"))})
	return a.backToSuppressions(c, wish{Channel: string(recipient.Email)}, err)
}

func (a *Records) backToSuppressions(c echo.Context, typed wish, err error) error {
	var bad *verification.InvalidError
	if errors.As(err, &bad) {
		w := layout.Words(c)
		typed.To = "" // no page holds a whole address
		return a.showSuppressions(c, http.StatusUnprocessableEntity, typed, cmp.Or(w.Get("suppressions.problem."+bad.Field), bad.Detail))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/admin/suppressions")
}
