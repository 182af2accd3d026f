package records

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// Number prefixes that get no text messages for a while, because hardly any code of theirs was entered.

// prefixesView is the page of them.
type prefixesView struct {
	layout.Page
	Rows    []prefixView
	May     bool // the reader may lift
	Problem string
	listing.Pages
	Other  string // address of the list of the other state
	Active bool   // only those that hold now
}

type prefixView struct {
	ID           string
	Since, Until texts.Clock
	Prefix, App  string
	Country      string
	Sends        string // address of what was sent to the country
	Why          string // the numbers
	State        explain.Label
	After        texts.Sentence // who lifted it, when and why
	Active       bool
}

// prefixJSON is a pause in the JSON API.
type prefixJSON struct {
	ID        string  `json:"id"`
	App       string  `json:"app"`
	Country   string  `json:"country"`
	Prefix    string  `json:"prefix"`
	Since     string  `json:"since"`
	Until     string  `json:"until"`
	Sends     int     `json:"sends"`
	Approved  int     `json:"approved"`
	Usual     *int    `json:"usual_percent"`
	Active    bool    `json:"active"`
	LiftedAt  *string `json:"lifted_at"`
	LiftedBy  *string `json:"lifted_by"`
	LiftedWhy *string `json:"lifted_reason"`
}

// prefixes returns the list of present and past pauses.
func (a *Records) prefixes() listing.List[store.PrefixPauseFilter, store.PrefixPause] {
	return listing.List[store.PrefixPauseFilter, store.PrefixPause]{
		Name: "prefixes", Path: PrefixesPath,
		Known: listing.Parameters[store.PrefixPauseFilter]{
			"state": listing.Active(func(f *store.PrefixPauseFilter) *bool { return &f.Active }),
		},
		Read: a.Store.PrefixPauses,
	}.Marked(func(f *store.PrefixPauseFilter) *int { return &f.Limit }, func(f *store.PrefixPauseFilter) **store.Mark { return &f.Before },
		func(r store.PrefixPause) store.Mark { return store.Mark{At: r.Since, ID: r.ID} })
}

func prefixJSONOf(p store.PrefixPause, now time.Time) prefixJSON {
	out := prefixJSON{
		ID: p.ID.String(), App: p.App, Country: p.Country, Prefix: p.Prefix, Since: *listing.Stamp(p.Since), Until: *listing.Stamp(p.Until),
		Sends:    p.Sends,
		Approved: p.Approved, Active: p.Active(now), LiftedAt: listing.Stamp(p.LiftedAt), LiftedBy: listing.Text(p.LiftedBy),
		LiftedWhy: listing.Text(p.LiftedWhy),
	}
	if p.Usual >= 0 {
		out.Usual = &p.Usual
	}
	return out
}

func (a *Records) prefixesPage(c echo.Context) error {
	return a.showPrefixes(c, http.StatusOK, c.Request().URL.RawQuery, "")
}

func (a *Records) showPrefixes(c echo.Context, status int, raw, problem string) error {
	p, err := a.prefixes().Find(c.Request().Context(), raw, store.PrefixPauseFilter{Active: true})
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := prefixesView{
		Page: layout.NewPage(c, "prefixes.title", "prefixes"), Pages: p.Pages(), May: auth.ActorOf(c).May(auth.ActionLiftPrefix),
		Problem: problem,
		Active:  p.Filter.Active, Other: PrefixesPath + "?state=all",
	}
	if !v.Active {
		v.Other = PrefixesPath
	}
	for _, x := range p.Rows {
		v.Rows = append(v.Rows, prefixViewOf(x, p.Now, w))
	}
	return a.Layout.Show(c, status, "prefixes", v)
}

// PrefixesPath is the page of the pauses.
const PrefixesPath = "/admin/prefixes"

func prefixViewOf(p store.PrefixPause, now time.Time, w texts.Words) prefixView {
	v := prefixView{
		ID: p.ID.String(), Since: w.Clock(p.Since), Until: w.Clock(p.Until), Prefix: p.Prefix, App: p.App, Country: p.Country,
		Sends: listing.Address("/admin", nil, "country", p.Country), Why: explain.Numbers(p, w), Active: p.Active(now),
	}
	v.State, v.After = heldOrLifted(v.Active, w.Get("prefixes.holds"), p.LiftedAt, p.LiftedBy, p.LiftedWhy, w)
	return v
}

// liftPrefix ends a pause and writes the audit entry with it.
func (a *Records) liftPrefix(c echo.Context, id, reason string) (store.PrefixPause, error) {
	pause, err := uuid.Parse(id)
	if err != nil {
		return store.PrefixPause{}, layout.Invalid("id", "invalid", "This is no ID of a pause.")
	}
	act, err := a.Auth.Record(c, auth.ActionLiftPrefix)
	if err != nil {
		return store.PrefixPause{}, err
	}
	p, _, err := a.Desk.LiftPrefix(c.Request().Context(),
		store.PrefixLifting{ID: pause, By: auth.ActorOf(c).Name, Why: strings.TrimSpace(reason)}, act)
	return p, err
}

func (a *Records) liftPrefixJSON(c echo.Context) error {
	var w struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	p, err := a.liftPrefix(c, w.ID, w.Reason)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, prefixJSONOf(p, a.Now()))
}

func (a *Records) liftPrefixForm(c echo.Context, form url.Values) error {
	_, err := a.liftPrefix(c, form.Get("id"), form.Get("reason"))
	var bad *verification.InvalidError
	if errors.As(err, &bad) {
		return a.showPrefixes(c, http.StatusUnprocessableEntity, "", cmp.Or(layout.Words(c).Get("prefixes.problem."+bad.Reason), bad.Detail))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, PrefixesPath)
}
