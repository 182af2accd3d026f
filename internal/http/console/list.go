package console

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
)

// sendList returns the list of sends and refusals. Its parameters are parsed by parseQuery.
func (console *Console) sendList() layout.List[store.Filter, store.SendOrRefusal] {
	return layout.List[store.Filter, store.SendOrRefusal]{
		Name: "sends", Path: "/admin", Cursor: func(r store.SendOrRefusal) store.Cursor { return cursorOf(r.Send) },
		Paging: func(f *store.Filter) layout.PagingFields {
			return layout.PagingFields{Limit: &f.Limit, Before: &f.Before, After: &f.After}
		},
		Read: func(ctx context.Context, f store.Filter) ([]store.SendOrRefusal, time.Time, error) {
			rows, err := console.sendsWithTimeFallback(ctx, f)
			return rows, time.Time{}, err
		},
	}
}

// page is one page of sendList.
type page = layout.PaginatedRows[store.Filter, store.SendOrRefusal]

func cursorOf(s store.Send) store.Cursor { return store.Cursor{At: s.LoggedAt, ID: s.ID} }

// listView is the data of the page of sends, a list with filters.
type listView struct {
	layout.Page
	page
	Filter  filterView
	Search  searchView
	Shared  texts.Sentence   // says that several rows share a support reference but are unrelated; nil for other lists
	Person  *recipientHeader // set if the list has the rows of one recipient
	Rows    []sendRow
	Count   string // the number of rows, in words
	Nothing string // why there are no rows
	// Verdict explains a recipient's leadingRow, or why there is no row. If Verdict is nil,
	// the page shows no verdict.
	Verdict                *explain.Verdict
	Actions                []sendAction // the actions on the leadingRow that the reader may do
	Keys                   []pageKey
	ExportAddress          string              // address of all rows as a file; empty: no rows, or not allowed
	SemicolonExportAddress string              // address of the export with semicolons
	ReloadAddress          string              // the address from which the open page reloads its rows; empty if the page does not reload
	Tag                    string              // changes when rows or their states change
	Choices                map[string][]string // suggestions for filters, by name
}

// searchView is the search field. It shows the text of a search again if the search was refused or
// found nothing.
type searchView struct {
	Typed   string
	Problem string
	Several []recipientLink // recipients that look as typed
}

// recipientHeader is the part of a recipient's page above the rows.
type recipientHeader struct {
	FilterText   texts.Sentence // "Only <the recipient>"
	Known        bool           // the database has rows of the recipient
	Quota        quotaView
	LeadingRowID uuid.UUID // the row that the verdict explains; nil UUID if there is no verdict or no row
}

func (console *Console) listPage(c echo.Context) error {
	raw := c.Request().URL.RawQuery
	q, err := parseQuery(raw, console.Now(), layout.Words(c).Zone())
	if mistaken, shown := mistakenFilters(raw, err, layout.Words(c)); shown {
		v := listView{Page: layout.NewPage(c, "list.title", "sends"), Filter: mistaken, Choices: console.filterSuggestions()}
		v.Nothing = v.W.Get("problem.invalid.title")
		return console.layout.Show(c, mistaken.Mistake.StatusOr(http.StatusOK), "list", v)
	}
	if err != nil {
		return err
	}
	// The times in the address get a zone, so that the address means the same for readers in other
	// zones.
	if zone := layout.Words(c).Zone(); zone != time.UTC && q.hasLocalTimes(raw) {
		return c.Redirect(http.StatusSeeOther, listAddress(q.given, "", ""))
	}
	return console.showList(c, http.StatusOK, q, searchView{})
}

func (console *Console) showList(c echo.Context, status int, q listQuery, s searchView) error {
	ctx := c.Request().Context()
	found, err := console.sendList().Page(ctx, q.filter, q.given)
	// A page of newer rows that is not full has reached the start of the list. The full first page
	// is read and shown instead.
	if err == nil && q.filter.After != nil && len(found.Rows) < q.filter.Limit {
		q.given.Del("newer")
		q.filter.After = nil
		found, err = console.sendList().Page(ctx, q.filter, q.given)
	}
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := listView{
		Page: layout.NewPage(c, "list.title", "sends"), page: found, Search: s, Filter: filterView{Values: q.given, w: w},
		Choices: console.filterSuggestions(),
	}
	if v.Rows, err = console.rowsWithState(ctx, found.Rows, w); err != nil {
		return err
	}
	v.Count = w.Plural("list.count", len(found.Rows))
	if found.NextCursor != "" {
		v.Count = w.Plural("list.count.more", len(found.Rows))
	}
	if len(found.Rows) == 0 {
		v.Search.Typed = cmp.Or(v.Search.Typed, q.given.Get("reference"))
		switch filters := layout.FilterTexts(q.given, w); {
		case q.filter.Before != nil:
			v.Nothing = w.Get("list.end")
		case filters == "":
			v.Nothing = w.Get("list.nothing")
		case filters == layout.FilterText("recipient", "", w):
			masked := layout.Searched(c, *q.filter.Recipient)
			if v.Verdict, err = console.verdictWithoutRows(ctx, *q.filter.Recipient, masked, w); err != nil {
				return err
			}
		default:
			v.Nothing = w.Get("list.none", "filters", filters)
		}
	}
	if q.filter.Recipient != nil {
		if err := console.addRecipientHeader(c, &v); err != nil {
			return err
		}
	}
	if v.Verdict != nil && len(found.Rows) == 0 {
		v.Title = v.Verdict.What.Local()
	}
	v.Keys = keysOf(v.Actions, v.Verdict, len(found.Rows) > 0, w)
	if q.filter.Support != "" && len(found.Rows) > 1 {
		v.Shared = w.Sentence("list.shared", texts.Strong("support", store.SupportReference(found.Rows[0].ID)))
	}
	if status == http.StatusOK && q.filter.Before == nil && q.filter.After == nil {
		v.ReloadAddress, v.Tag = v.AddressWith("", ""), v.rowsTag()
		c.Response().Header().Set("ETag", v.Tag)
		if c.Request().Header.Get("If-None-Match") == v.Tag {
			return c.NoContent(http.StatusNotModified)
		}
	}
	if auth.ActorOf(c).May(auth.ActionExport) && len(found.Rows) > 0 {
		v.ExportAddress, v.SemicolonExportAddress = exportAddress(q.given, ""), exportAddress(q.given, "semicolon")
	}
	return console.layout.Show(c, status, "list", v)
}

// filterSuggestions returns suggested values for the filters, by the name of the filter. The
// suggestions come from the current settings. A value that only older rows have, from earlier
// settings, is not suggested.
func (console *Console) filterSuggestions() map[string][]string {
	all := map[string][]string{"carrier": console.Carriers}
	all["app"], all["purpose"] = console.Administration.AppsAndPurposes()
	rules := []string{policy.LockoutName, policy.CarrierName}
	inForce, _ := console.Administration.Policy.Get().BuiltInRules()
	for _, p := range console.Administration.Policies() {
		inForce = append(inForce, p.Rules...)
	}
	for _, r := range inForce {
		rules = append(rules, r.Name)
	}
	slices.Sort(rules)
	all["blocked_by"] = slices.Compact(rules)
	all["country"] = console.Administration.Policy.Get().Numbers.ServedCountries()
	return all
}

// rowsTag returns an entity tag of the rows, their states and the verdict. The tag does not depend
// on the remaining times that the open page counts down by itself.
func (v *listView) rowsTag() string {
	h := fnv.New128a()
	for _, r := range v.Rows {
		fmt.Fprintln(h, r.ID, r.Status, r.Why(), r.Attempt, r.Count, r.Code.Word)
		for _, p := range r.Quota {
			fmt.Fprintln(h, p.Name, p.Used)
		}
	}
	if v.Verdict != nil {
		fmt.Fprintln(h, v.Verdict.What, v.Verdict.Next, v.Verdict.Reply.Template)
	}
	return fmt.Sprintf(`W/"%x"`, h.Sum(nil))
}

// addRecipientHeader adds the recipient of the rows, the verdict on their leadingRow, and the
// present quota. Only the first page of a list gets a verdict. Forgotten recipients get none,
// because they all have the same hash.
func (console *Console) addRecipientHeader(c echo.Context, v *listView) (err error) {
	ctx := c.Request().Context()
	v.Person = &recipientHeader{FilterText: v.W.Sentence("filter.recipient.unknown")}
	if len(v.Rows) == 0 {
		return nil
	}
	newest := v.Rows[0].SendOrRefusal
	v.Person.Known, v.Person.FilterText = true, v.W.Sentence("filter.recipient", texts.Strong("to", newest.To))
	if v.Newest != "" || newest.Recipient.IsZero() {
		decision, quotaErr := console.quotaOf(ctx, newest)
		v.Person.Quota = quotaViewOf(newest, decision, quotaErr, v.W)
		return nil
	}
	lead, err := console.leadingRow(ctx, v.page.Filter, newest)
	if err != nil {
		return err
	}
	story, err := console.readStory(ctx, lead.ID.String())
	if err != nil {
		return err
	}
	verdict, quota, _, err := console.verdictAndQuota(ctx, story, v.W)
	if err != nil {
		return err
	}
	v.Person.LeadingRowID, v.Verdict, v.Person.Quota = lead.ID, &verdict, quota
	v.Title = verdict.What.Local()
	v.Actions = withoutUselessResend(actionsFor(auth.ActorOf(c), story), verdict)
	return nil
}

// leadingRow returns the row of a recipient that the verdict describes. This is the newest row or,
// if it is a refusal by a rule, the newest send for the same purpose that the rule has most likely
// counted. The refusal alone would hide the message that did go out. f is the filter of the list,
// and the send need not be among the rows that the page shows.
func (console *Console) leadingRow(ctx context.Context, f store.Filter, newest store.SendOrRefusal) (store.SendOrRefusal, error) {
	if newest.Status != store.Refused {
		return newest, nil
	}
	f.SendsOnly, f.Limit, f.App, f.Channel, f.Purpose = true, 1, newest.App, newest.Channel, newest.Purpose
	if since := newest.LoggedAt.Add(-recentSendsPeriod); f.From.Before(since) {
		f.From = since
	}
	sends, err := console.DB.Sends(ctx, f)
	if err != nil || len(sends) == 0 {
		return newest, err
	}
	return sends[0], nil
}

// verdictWithoutRows returns the verdict on a recipient to whom no row belongs. A suppression may
// hold nevertheless, for example one that an administrator added. masked is the masked recipient,
// or "" if it is not known.
func (console *Console) verdictWithoutRows(ctx context.Context, h recipient.Hash, masked string, w texts.Words) (*explain.Verdict, error) {
	list, now, err := console.DB.Suppressions(ctx, store.SuppressionFilter{Recipient: &h, Active: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	var suppression *store.Suppression
	if len(list) > 0 {
		suppression, masked = &list[0], list[0].To
	}
	return explain.JudgeWithoutRows(masked, suppression, now, w), nil
}

// listAddress returns the address of the list's first page with one parameter changed, or removed
// if the value is empty.
func listAddress(given url.Values, name, value string) string {
	return layout.ListAddress("/admin", given, name, value)
}

// readStory reads one send from the database with all data that belong to the send. If the ID is
// unknown or not in canonical form, readStory returns fault.NotFound. It also returns errors of the
// store.
func (console *Console) readStory(ctx context.Context, id string) (store.SendDetails, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || !strings.EqualFold(parsed.String(), id) { // uuid.Parse also takes braces and urn:uuid:
		return store.SendDetails{}, fault.NotFound
	}
	s, err := console.DB.SendDetails(ctx, parsed)
	if err == nil && s.Verification == nil {
		s.Related, err = console.recentSends(ctx, s.Send)
	}
	return s, err
}

// These are bounds of recentSends.
const (
	maxRecentSends    = 5
	recentSendsPeriod = 24 * time.Hour
)

// recentSends returns the row s and at most maxRecentSends earlier sends and refusals of the same
// recipient, from the oldest to the newest. The earlier rows have the same app and channel and were
// logged in the recentSendsPeriod before s. The rules most likely counted the sends among them.
func (console *Console) recentSends(ctx context.Context, s store.SendOrRefusal) ([]store.SendOrRefusal, error) {
	if s.Recipient.IsZero() { // a forgotten recipient; the rows of all forgotten recipients have this hash
		return []store.SendOrRefusal{s}, nil
	}
	rows, err := console.DB.Sends(ctx, store.Filter{
		Recipient: &s.Recipient, App: s.App, Channel: s.Channel, From: s.LoggedAt.Add(-recentSendsPeriod),
		Before: new(cursorOf(s.Send)), Limit: maxRecentSends,
	})
	slices.Reverse(rows)
	return append(rows, s), err
}
