package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// actsView is the list of what administrators did.
type actsView struct {
	layout.Page
	Rows    []actView
	Older   string // address; empty: this is the end
	Newest  string // address of the first page; empty: this is it
	All     string // address without filters; empty: there are none
	Nothing string
}

type actView struct {
	At         texts.Clock
	Who        string
	On         string // masked, or the account; "–": nobody
	Link       string // of the send that it was done to
	Deed, Why  string
	State      stateView
	From, Rest string
}

// actJSON is an act as scripts see it. What it does not have is null.
type actJSON struct {
	ID        string             `json:"id"`
	At        string             `json:"at"`
	Who       string             `json:"who"`
	Role      string             `json:"role"`
	Network   *string            `json:"network"`
	What      string             `json:"what"`
	App       *string            `json:"app"`
	Channel   *string            `json:"channel"`
	Purpose   *string            `json:"purpose"`
	To        *string            `json:"to"`
	Recipient *string            `json:"recipient"`
	Target    *string            `json:"target"`
	Reason    *string            `json:"reason"`
	Outcome   store.AuditOutcome `json:"outcome"`
	Detail    *string            `json:"detail"`
	Ends      *string            `json:"ends"`
}

type actsJSON struct {
	Acts []actJSON `json:"acts"`
	Next *string   `json:"next"`
}

// actNames are the parameters of the list of acts; "who" and "what" it has alone.
var actNames = []string{"who", "what", "recipient", "cursor", "limit"}

// parseActs reads the address of a list of acts, as parseQuery does that of a list of sends.
func parseActs(raw string) (store.AuditFilter, url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		_, err := parseQuery(raw, time.Time{})
		return store.AuditFilter{}, nil, err
	}
	f, shared := store.AuditFilter{}, url.Values{}
	own := map[string]*string{"who": &f.Who, "what": &f.What}
	for name, list := range values {
		switch field := own[name]; {
		case !slices.Contains(actNames, name):
			return f, nil, layout.Invalid(safeName(name), "unknown", "There is no such parameter.")
		case len(list) > 1:
			return f, nil, layout.Invalid(name, "repeated", "Give this parameter once.")
		case field == nil:
			shared[name] = list
		default:
			if problem := word(func(*store.Filter) *string { return field })(nil, list[0], time.Time{}); problem != "" {
				return f, nil, layout.Invalid(name, "invalid", problem)
			}
		}
	}
	q, err := parseQuery(shared.Encode(), time.Time{})
	f.Recipient, f.Before, f.Limit = q.filter.Recipient, q.filter.Before, q.filter.Limit
	return f, values, err
}

// findActs reads one page, and says where the next one begins; "" where there is none.
func (a *Console) findActs(ctx context.Context, f store.AuditFilter) (list []store.AuditEntry, next string, err error) {
	list, err = a.Log.AuditEntries(ctx, f)
	if err == nil {
		next, err = cursorAfter(list, f.Limit, func(x store.AuditEntry) store.Mark { return store.Mark{At: x.At, ID: x.ID} }, func(last store.Mark) ([]store.AuditEntry, error) {
			f.Before, f.Limit = &last, 1
			return a.Log.AuditEntries(ctx, f)
		})
	}
	if err != nil {
		return nil, "", err
	}
	return list, next, nil
}

func (a *Console) actsJSON(c echo.Context) error {
	f, _, err := parseActs(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	list, next, err := a.findActs(c.Request().Context(), f)
	if err != nil {
		return err
	}
	out := actsJSON{Acts: make([]actJSON, 0, len(list)), Next: text(next)}
	for _, act := range list {
		out.Acts = append(out.Acts, actJSONOf(act))
	}
	return c.JSON(http.StatusOK, out)
}

func actJSONOf(a store.AuditEntry) actJSON {
	out := actJSON{
		ID: a.ID.String(), At: *stamp(a.At), Who: a.Who, Role: a.Role, Network: text(a.Network), What: a.What, App: text(a.App),
		Channel: text(string(a.Channel)), Purpose: text(a.Purpose), To: text(a.To), Target: text(a.Target), Reason: text(a.Reason),
		Outcome: a.Outcome, Detail: text(a.Detail),
	}
	if !a.Recipient.IsZero() {
		out.Recipient = text(a.Recipient.String())
	}
	if a.Ends != uuid.Nil {
		out.Ends = text(a.Ends.String())
	}
	return out
}

func (a *Console) actsPage(c echo.Context) error {
	f, given, err := parseActs(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	list, next, err := a.findActs(c.Request().Context(), f)
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := actsView{Page: layout.Page{W: w, Title: w.Get("acts.title"), In: true, Here: "acts"}}
	for _, act := range list {
		v.Rows = append(v.Rows, actViewOf(act, w))
	}
	if len(list) == 0 {
		v.Nothing = w.Get("acts.nothing")
	}
	if next != "" {
		v.Older = actsAddress(given, next)
	}
	if f.Before != nil {
		v.Newest = actsAddress(given, "")
	}
	if f.Who != "" || f.What != "" || f.Recipient != nil {
		v.All = "/admin/acts"
	}
	return a.layout.Show(c, http.StatusOK, "acts", v)
}

func actsAddress(given url.Values, cursor string) string {
	next := url.Values{}
	for name, list := range given {
		if name != "cursor" && list[0] != "" {
			next[name] = list
		}
	}
	if cursor != "" {
		next.Set("cursor", cursor)
	}
	if len(next) == 0 {
		return "/admin/acts"
	}
	return "/admin/acts?" + next.Encode()
}

var actTones = map[store.AuditOutcome]explain.Tone{store.AuditBegun: explain.Still, store.AuditDone: explain.Good, store.AuditFailed: explain.Bad}

var actSigns = map[store.AuditOutcome]string{store.AuditBegun: "…", store.AuditDone: "✓", store.AuditFailed: "✕"}

func actViewOf(a store.AuditEntry, w texts.Words) actView {
	v := actView{
		At: texts.Clock{Time: a.At, Exact: true}, Who: a.Who + " (" + w.Or("role", a.Role) + ")", On: cmp.Or(a.To, "–"), Deed: w.Or("deed", a.What), Why: a.Reason,
		State: stateView{Sign: actSigns[a.Outcome], Word: w.Or("outcome", string(a.Outcome)), Tone: actTones[a.Outcome]},
		From:  cmp.Or(a.Network, "–"), Rest: w.Or("detail", a.Detail),
	}
	if id, err := uuid.Parse(a.Target); err == nil {
		v.Link = explain.SendAddress(id)
	} else if a.To == "" && a.Target != "" {
		v.On = a.Target
	}
	return v
}
