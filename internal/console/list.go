package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/console/rows"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// listView is the list with its filters.
type listView struct {
	layout.Page
	Filter  filterView
	Search  searchView
	Shared  texts.Sentence   // why these rows stand together, where they only share a support reference
	Aside   []texts.Sentence // mail servers and carriers that get nothing now
	Person  *personView      // when the list is one recipient's
	Rows    []rows.Row
	Count   string           // of the rows
	Older   string           // address; empty: this is the end
	Newer   string           // address of the page before; empty: this is the first
	Newest  string           // address of the first page; empty: this is it
	Nothing string           // why there are no rows
	Verdict *explain.Verdict // on a recipient: on their newest row, or why they have none; nil: on another page, or with other filters
	Export  string           // address of all rows as a file; empty: not for this account
}

// searchView is the search field after a search that found no question in it.
type searchView struct {
	Typed   string
	Problem string
}

// personView is the recipient whose rows these are.
type personView struct {
	Who    texts.Sentence
	Known  bool   // the log has rows of them
	All    string // address of the list without this filter
	Quota  quotaView
	Newest string // page of the row that the verdict is on; empty: there is no verdict, or no row
}

func (a *Console) listPage(c echo.Context) error {
	hints, raw := takeHints(c.Request().URL.RawQuery)
	q, err := parseQuery(raw, a.Now(), layout.Words(c).Zone())
	if err != nil {
		return err
	}
	if zone := layout.Words(c).Zone(); zone != time.UTC && q.local(raw) { // so that the address says the same to others
		return c.Redirect(http.StatusSeeOther, address(q.given, "", ""))
	}
	q.hints = hints
	return a.showList(c, http.StatusOK, q, searchView{})
}

func (a *Console) showList(c echo.Context, status int, q query, s searchView) error {
	found, err := a.find(c.Request().Context(), q.filter)
	if err == nil && q.filter.After != nil && len(found.rows) < q.filter.Limit { // back at the first page, which is full
		q.given.Del("newer")
		q.filter.After = nil
		found, err = a.find(c.Request().Context(), q.filter)
	}
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := listView{Page: layout.NewPage(c, "list.title", "sends"), Search: s, Filter: filterOf(q, w)}
	for _, m := range a.Aside() {
		key := "list.aside"
		if m.Carrier {
			key = "list.aside.carrier"
		}
		v.Aside = append(v.Aside, w.Tell(key, texts.Strong("server", m.Server), texts.Plain("why", m.Why),
			texts.Plain("for", w.Wait(a.Now().Sub(m.Since)))))
	}
	if v.Rows, err = rows.Page(c.Request().Context(), a.Log, a.Desk.Codes, found.rows, w); err != nil {
		return err
	}
	v.Count = w.Plural("list.count", len(found.rows))
	if found.next != "" {
		v.Count = w.Plural("list.count.more", len(found.rows))
	}
	if len(found.rows) == 0 {
		if v.Nothing = w.Get(emptyReason(q)); emptyReason(q) == noRecipient {
			v.Verdict, err = a.withoutRows(c.Request().Context(), q.hints, w)
		}
		if err != nil {
			return err
		}
	}
	if q.filter.Recipient != nil {
		if err := a.person(c, q, found, &v); err != nil {
			return err
		}
	}
	if q.filter.Support != "" && len(found.rows) > 1 {
		v.Shared = w.Tell("list.shared", texts.Strong("support", store.SupportReference(found.rows[0].ID)))
	}
	if auth.ActorOf(c).May(auth.ActionExport) && len(found.rows) > 0 {
		v.Export = exportAddress(q.given)
	}
	if found.next != "" {
		v.Older = address(q.given, "cursor", found.next)
	}
	if found.newer != "" {
		v.Newer = address(q.given, "newer", found.newer)
	}
	if q.filter.Before != nil || q.filter.After != nil {
		v.Newest = address(q.given, "cursor", "")
	}
	return a.layout.Show(c, status, "list", v)
}

// person adds the recipient that the rows are about, the verdict on the newest row, and what the rules say now. Forgotten
// recipients share one hash, so they get no verdict.
func (a *Console) person(c echo.Context, q query, f found, v *listView) (err error) {
	ctx := c.Request().Context()
	v.Person = &personView{Who: v.W.Tell("filter.recipient.unknown"), All: address(q.given, "recipient", "")}
	if len(f.rows) == 0 {
		if masked := searched(c); masked != "" {
			v.Person.Who = v.W.Tell("filter.recipient", texts.Strong("to", masked))
		}
		return nil
	}
	newest := f.rows[0]
	v.Person.Known, v.Person.Who = true, v.W.Tell("filter.recipient", texts.Strong("to", newest.To))
	if q.filter.Before != nil || q.filter.After != nil || newest.Recipient.IsZero() {
		now, away := a.quotaOf(ctx, newest)
		v.Person.Quota = quotaViewOf(newest, now, away, v.W)
		return nil
	}
	story, err := a.story(ctx, newest.ID.String())
	if err != nil {
		return err
	}
	v.Person.Newest, v.Verdict = explain.SendAddress(newest.ID), new(explain.Verdict)
	*v.Verdict, v.Person.Quota, err = a.verdictAndQuota(ctx, story, v.W)
	return err
}

// noRecipient is an empty list of one recipient, with no other filter.
const noRecipient = "norows.what"

// emptyReason returns the key of the reason why a list is empty.
func emptyReason(q query) string {
	others := len(q.given)
	if q.given.Has("limit") {
		others--
	}
	switch {
	case q.filter.Before != nil:
		return "list.end"
	case others == 0:
		return "list.nothing"
	case others == 1 && q.filter.Recipient != nil:
		return noRecipient
	}
	return "list.none"
}

// address returns the list's address with one parameter changed, or removed if the value is empty.
func address(given url.Values, name, value string) string {
	return listing.Address("/admin", given, name, value)
}
