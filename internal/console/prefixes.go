package console

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// Prefixes to which text messages rest, because hardly any code came back from there.

// prefixesView is the page of them.
type prefixesView struct {
	layout.Page
	Rows    []prefixView
	May     bool // the reader may lift
	Problem string
	Older   string // address; empty: this is the end
	Newest  string
	Other   string // address of the list of the other state
	Active  bool   // only those that hold now
}

type prefixView struct {
	ID           string
	Since, Until texts.Clock
	Prefix, App  string
	Country      string
	Sends        string // address of what was sent to the country
	Why          string // the numbers
	State        stateView
	After        texts.Sentence // who lifted it, when and why
	Active       bool
}

// prefixJSON is a pause as scripts see it.
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

type prefixesJSON struct {
	Prefixes []prefixJSON `json:"prefixes"`
	Next     *string      `json:"next"`
}

// prefixPage is one page of pauses, as an address asks for it.
type prefixPage struct {
	filter store.PrefixPauseFilter
	list   []store.PrefixPause
	now    time.Time
	next   string // cursor; empty: this is the end
}

// findPrefixes reads the list that an address means; its parameters are those of the list of suppressions.
func (a *Console) findPrefixes(c echo.Context, raw, state string) (p prefixPage, err error) {
	f, _, err := parseSuppressions(raw, state)
	if err != nil {
		return p, err
	}
	if f.Recipient != nil {
		return p, layout.Invalid("recipient", "unknown", "There is no such parameter.")
	}
	p.filter = store.PrefixPauseFilter{Active: f.Active, Before: f.Before, Limit: f.Limit}
	ctx := c.Request().Context()
	p.list, p.now, err = a.Log.PrefixPauses(ctx, p.filter)
	if err == nil {
		p.next, err = cursorAfter(p.list, f.Limit, func(x store.PrefixPause) store.Mark { return store.Mark{At: x.Since, ID: x.ID} }, func(last store.Mark) ([]store.PrefixPause, error) {
			more, _, err := a.Log.PrefixPauses(ctx, store.PrefixPauseFilter{Active: f.Active, Before: &last, Limit: 1})
			return more, err
		})
	}
	return p, err
}

func (a *Console) prefixesJSON(c echo.Context) error {
	p, err := a.findPrefixes(c, c.Request().URL.RawQuery, "all")
	if err != nil {
		return err
	}
	out := prefixesJSON{Prefixes: make([]prefixJSON, 0, len(p.list)), Next: text(p.next)}
	for _, x := range p.list {
		out.Prefixes = append(out.Prefixes, prefixJSONOf(x, p.now))
	}
	return c.JSON(http.StatusOK, out)
}

func prefixJSONOf(p store.PrefixPause, now time.Time) prefixJSON {
	out := prefixJSON{
		ID: p.ID.String(), App: p.App, Country: p.Country, Prefix: p.Prefix, Since: *stamp(p.Since), Until: *stamp(p.Until), Sends: p.Sends,
		Approved: p.Approved, Active: p.Active(now), LiftedAt: stamp(p.LiftedAt), LiftedBy: text(p.LiftedBy), LiftedWhy: text(p.LiftedWhy),
	}
	if p.Usual >= 0 {
		out.Usual = &p.Usual
	}
	return out
}

func (a *Console) prefixesPage(c echo.Context) error {
	return a.showPrefixes(c, http.StatusOK, c.Request().URL.RawQuery, "")
}

func (a *Console) showPrefixes(c echo.Context, status int, raw, problem string) error {
	p, err := a.findPrefixes(c, raw, "active")
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := prefixesView{
		Page: layout.Page{W: w, Title: w.Get("prefixes.title"), In: true, Here: "prefixes"}, May: auth.ActorOf(c).May(auth.ActionLiftPrefix), Problem: problem,
		Active: p.filter.Active, Other: prefixesPath + "?state=all",
	}
	state := ""
	if !v.Active {
		v.Other, state = prefixesPath, "state=all&"
	}
	for _, x := range p.list {
		v.Rows = append(v.Rows, prefixViewOf(x, p.now, w))
	}
	if p.next != "" {
		v.Older = prefixesPath + "?" + state + "cursor=" + p.next
	}
	if p.filter.Before != nil {
		v.Newest = strings.TrimRight(prefixesPath+"?"+state, "?&")
	}
	return a.layout.Show(c, status, "prefixes", v)
}

const prefixesPath = "/admin/prefixes"

func prefixViewOf(p store.PrefixPause, now time.Time, w texts.Words) prefixView {
	v := prefixView{
		ID: p.ID.String(), Since: texts.Clock{Time: p.Since}, Until: texts.Clock{Time: p.Until}, Prefix: p.Prefix, App: p.App, Country: p.Country,
		Sends: address(nil, "country", p.Country), Why: explain.Numbers(p, w), Active: p.Active(now),
	}
	v.State, v.After = heldOrLifted(v.Active, w.Get("prefixes.holds"), p.LiftedAt, p.LiftedBy, p.LiftedWhy, w)
	return v
}

// liftPrefix ends a pause, and has the act recorded with it.
func (a *Console) liftPrefix(c echo.Context, id, reason string) (store.PrefixPause, error) {
	pause, err := uuid.Parse(id)
	if err != nil {
		return store.PrefixPause{}, layout.Invalid("id", "invalid", "This is no ID of a pause.")
	}
	act, err := a.auth.Record(c, auth.ActionLiftPrefix)
	if err != nil {
		return store.PrefixPause{}, err
	}
	p, _, err := a.Actions.LiftPrefix(c.Request().Context(), store.PrefixLifting{ID: pause, By: auth.ActorOf(c).Name, Why: strings.TrimSpace(reason)}, act)
	return p, err
}

func (a *Console) liftPrefixJSON(c echo.Context) error {
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

func (a *Console) liftPrefixForm(c echo.Context) error {
	form, err := layout.ReadForm(c)
	if err != nil {
		return err
	}
	_, err = a.liftPrefix(c, form.Get("id"), form.Get("reason"))
	var bad *verification.InvalidError
	if errors.As(err, &bad) {
		return a.showPrefixes(c, http.StatusUnprocessableEntity, "", cmp.Or(layout.Words(c).Get("prefixes.problem."+bad.Reason), bad.Detail))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, prefixesPath)
}

// prefixesNow says how many rest now; nothing where none does.
func (a *Console) prefixesNow(c echo.Context, w texts.Words) (string, error) {
	list, _, err := a.Log.PrefixPauses(c.Request().Context(), store.PrefixPauseFilter{Active: true, Limit: 200})
	if err != nil || len(list) == 0 {
		return "", err
	}
	return w.Plural("overview.prefixes", len(list)), nil
}
