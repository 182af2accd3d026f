package console

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// rowsIn finds the rows of a list page, newest first, by their sends' ids.
func rowsIn(body string) []string {
	var ids []string
	for _, m := range regexp.MustCompile(`<a href="/admin/sends/([0-9a-f-]{36})" data-row>`).FindAllStringSubmatch(body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// linkIn is the address behind a link's text, "" for none.
func linkIn(body, text string) string {
	m := regexp.MustCompile(`<a href="([^"]*)"[^>]*>` + text + `</a>`).FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(m[1], "&amp;", "&")
}

func TestListSaysWhyItIsEmpty(t *testing.T) {
	_, b := loggedIn(t)
	contains(t, b.Get("/admin"), "Nothing has been sent yet")
	contains(t, b.Get("/admin?limit=5"), "Nothing has been sent yet")
	contains(t, b.Get("/admin?status=sent"), "Nothing matches: State: sent.")
	contains(t, b.Get("/admin?status=sent&app=shop&last=24h&reference=a"),
		"Nothing matches: App: shop, Time: last 24 h, Reference: a, State: sent.",
		`<a href="/admin?app=shop&amp;last=24h&amp;reference=a">without State: sent</a>`,
		`last=30d&amp;reference=a&amp;status=sent">Time: last 30 days</a>`)
	contains(t, b.Get("/admin?from=2026-03-04T00:00:00Z"), "From (UTC): 2026-03-04 00:00:00")
	contains(t, b.Get("/admin?country=DE&app=login"), `<a href="/admin?purpose=login">Purpose: login</a>`,
		"Country of the number: Germany (DE)")
	for path, says := range map[string]string{
		"acts?who=stranger": "Who: stranger.", "acts?what=quota.reset": "Act: reset the quota.",
		"webhooks?app=desk&state=pending":                             "App: desk, State: pending.",
		"suppressions?state=all&recipient=" + strings.Repeat("0", 32): "Only one recipient.",
	} {
		contains(t, b.Get("/admin/"+path), "Nothing matches: "+says)
	}
	contains(t, b.Get("/admin/overview?app=shop"), "App: shop", "No code was opened in this time.",
		"No domain refused a mail in this time.",
		"No request was refused in this time.", "No send failed in this time.")
	contains(t, b.Get("/admin?recipient="+strings.Repeat("0", 32)), "No request for this recipient reached us")
	contains(t, b.Get("/admin?cursor="+layout.EncodeCursor(store.Cursor{At: consoletest.Start})), "There is nothing older")
}

// Rows that come in while a reader pages neither repeat a row nor hide one. Paging back shows the
// same pages, and ends on a full one.
func TestPaging(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 23 {
		all = append(all, r.refused("ana@example.com", "minute", time.Minute, 1).ID.String())
		if i%5 == 4 { // five rows share each instant
			r.Clock.Add(time.Millisecond)
		}
	}
	slices.Reverse(all)
	b, body := r.LoggedIn(), ""
	page := func(path string) []string {
		body = want(t, b.Get(path), http.StatusOK).Body.String()
		return rowsIn(body)
	}
	const first = "/admin?limit=5&status=refused"
	pages := [][]string{page(first)}
	for path := linkIn(body, "Older"); path != "" && len(pages) < 9; path = linkIn(body, "Older") {
		if pages = append(pages, page(path)); linkIn(body, "Newest") != first {
			t.Errorf("page %d: newest is %q", len(pages), linkIn(body, "Newest"))
		}
		if len(pages) < 4 {
			r.Clock.Add(time.Millisecond)
			r.refused("bo@example.com", "minute", time.Minute, 1)
		}
	}
	if !slices.Equal(slices.Concat(pages...), all) || len(pages) != 5 {
		t.Errorf("%d pages, want 5 and 23 rows:\n%v\n%v", len(pages), pages, all)
	}
	for _, before := range slices.Backward(pages[:4]) {
		if rows := page(linkIn(body, "Newer")); !slices.Equal(rows, before) {
			t.Errorf("back: %v, want %v", rows, before)
		}
	}
	rows := page(linkIn(body, "Newer"))
	if len(rows) != 5 || !slices.Equal(rows[2:], pages[0][:3]) || linkIn(body, "Newer") != "" || linkIn(body, "Newest") != "" {
		t.Errorf("the first page: %v, newer %q", rows, linkIn(body, "Newer"))
	}
	want(t, b.Get("/admin?newer=x"), http.StatusUnprocessableEntity)
	cursor := layout.EncodeCursor(store.Cursor{At: r.Clock.Now()})
	want(t, b.Get("/admin?newer="+cursor+"&cursor="+cursor), http.StatusUnprocessableEntity)
}

func TestFilters(t *testing.T) {
	r := newRig(t)
	sent := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" })
	r.Must(r.Store.Check(t.Context(), storetest.Right(sent.VerificationID)))
	first := sent.ID.String()
	r.Clock.Add(time.Hour)
	middle := r.Clock.Now()
	refused := r.refused("bo@example.com", "hour", time.Minute, 1,
		func(s *store.SendOrRefusal) { s.App, s.Network = "desk", "198.51.100.0/24" }).ID.String()
	sms := r.refused("bo@example.com", "day", time.Minute, 1, func(s *store.SendOrRefusal) {
		s.Channel, s.Purpose, s.To, s.Country = recipient.SMS, "signup", "+49 151•••021", "DE"
	}).ID.String()
	_, hash := r.recipient("BO@example.com")
	b := r.LoggedIn()
	at := func(t time.Time) string { return url.QueryEscape(t.Format(time.RFC3339Nano)) }
	for query, ids := range map[string][]string{
		"": {sms, refused, first}, "status=sent": {first}, "channel=sms": {sms}, "purpose=signup": {sms}, "app=desk": {refused},
		"blocked_by=hour": {refused}, "reference=order-7": {first}, "carrier=mx1.example.net": {first}, "country=de": {sms},
		"domain=EXAMPLE.com": {refused, first}, "recipient=" + hash.String(): {sms, refused}, "outcome=entered": {first},
		"outcome=waiting": nil, "network=198.51.100.0/24": {refused}, "network=198.51.100.77": {refused},
		"network=198.51.100.77/24": {refused}, "from=" + at(middle): {sms, refused}, "to=" + at(middle): {first},
		"from=2026-03-04T15:00": {sms, refused}, "last=24h": {sms, refused, first}, "last=1h": {sms, refused},
		// without a beginning it is 24 h before the end
		"network=198.51.100.0/24&to=2026-03-04T14:00": nil, "network=198.51.100.0/24&to=" + at(middle.Add(25*time.Hour)): nil,
		"network=198.51.100.0/24&to=" + at(middle.Add(23*time.Hour)): {refused},
		"from=" + at(consoletest.Start) + "&last=1h":                 {sms, refused, first},
		"status=&channel=&last=&cursor=&limit=&recipient=":           {sms, refused, first},
	} {
		if got := rowsIn(want(t, b.Get("/admin?"+query), http.StatusOK).Body.String()); !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", query, got, ids)
		}
	}
}

// The open list reads itself again: it is answered 304 until there is another row, also one that
// was committed late, or a row shows another state. Older pages stay as they are.
func TestListIsReadAgain(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	tag := ""
	changed := func(what, query string, changes bool) {
		t.Helper()
		rec := b.Get("/admin"+query, "If-None-Match", tag)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusNotModified}[changes]; rec.Code != want {
			t.Errorf("%s: %d, want %d", what, rec.Code, want)
		}
		if changes {
			tag = rec.Header().Get("ETag")
			contains(t, rec, `data-again="/admin`, `data-tag="`+html.EscapeString(tag)+`"`)
		}
	}
	changed("an empty list", "?app=shop", true)
	changed("the same", "?app=shop", false)
	s := r.begin("ana@example.com").Send
	changed("a new row", "?app=shop", true)
	r.Clock.Add(5 * time.Second)
	changed("time", "?app=shop", false)
	r.finish(s, store.Outcome{Status: store.Sent, Provider: "mx1.example.net"})
	changed("an outcome", "?app=shop", true)
	r.Must(r.Store.Check(t.Context(), storetest.Right(s.VerificationID)))
	changed("a right code", "?app=shop", true)
	r.refused("bo@example.com", "minute", time.Minute, 1, func(s *store.SendOrRefusal) { s.App = "desk" })
	changed("a row of another app", "?app=shop", false)
	row := r.refused("bo@example.com", "minute", time.Minute, 1)
	changed("a refusal", "?app=shop", true)
	r.Must(r.Store.RecordRefusals(t.Context(), []store.SendOrRefusal{row}))
	changed("the same refusal once more", "?app=shop", true)
	r.Clock.Add(-2 * time.Second)
	r.begin("late@example.com")
	r.Clock.Add(2 * time.Second)
	changed("a row from before the newest", "?app=shop", true)
	older := want(t, b.Get("/admin?cursor="+layout.EncodeCursor(cursorOf(s))), http.StatusOK)
	if lacks(t, older, "data-again"); older.Header().Get("ETag") != "" {
		t.Error("an older page has a tag")
	}
}

func TestBadFiltersAreNamed(t *testing.T) {
	b, long := newRig(t).LoggedIn(), strings.Repeat("x", 65)
	cursor := layout.EncodeCursor(store.Cursor{At: consoletest.Start})
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=201": "limit", "limit=1.5": "limit", "cursor=x": "cursor", "cursor=" + cursor + "A": "cursor",
		"cursor=" + strings.Repeat("_", 34): "cursor", "cursor=%00": "cursor", "cursor=" + respelt(cursor): "cursor",
		"cursor=" + layout.EncodeCursor(store.Cursor{At: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)}): "cursor",
		"status=SENT": "status", "status=%00": "status", "channel=fax": "channel", "outcome=sent": "outcome", "network=home": "network",
		"recipient=ana%40example.com": "recipient", "recipient=" + strings.Repeat("A", 32): "recipient", "recipient=00": "recipient",
		"from=yesterday": "from", "from=0001-01-01T00:00:00Z": "from", "to=10000-01-01T00:00:00Z": "to",
		"from=2026-03-04T14:00:00+08:00":                    "from", // the plus sign is a space here
		"from=2026-03-04T00:00:00Z&to=2026-03-04T00:00:00Z": "to", "purpose=" + long: "purpose", "app=%ff": "app",
		"reference=%0a": "reference",
		"country=XX":    "country", "domain=ana@example.com": "domain", "domain=localhost": "domain", "support=order-7": "support",
		"last=2h": "last", "offset=10": "offset", "status=sent&status=sent": "status",
		long + "=1": strings.Repeat("x", 64) + "…",
	} {
		rec := want(t, b.Get("/v1/admin/sends?"+query), http.StatusUnprocessableEntity)
		contains(t, rec, `"field":"`+field+`"`)
		lacks(t, rec, "ana@")
		contains(t, want(t, b.Get("/admin?"+query), http.StatusUnprocessableEntity), "<b>"+field+"</b>", "This filter cannot be read")
	}
	want(t, b.Get("/v1/admin/sends?a=%zz"), http.StatusBadRequest)
	want(t, b.Get("/admin?a;b"), http.StatusBadRequest)
}

// respelt is other base64 of the same bytes: the bits that the last letter has to spare are set.
func respelt(cursor string) string { return cursor[:len(cursor)-1] + "B" }

func FuzzCursor(f *testing.F) {
	f.Add(layout.EncodeCursor(store.Cursor{At: consoletest.Start}))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := layout.DecodeCursor(text); ok && layout.EncodeCursor(m) != text {
			t.Errorf("%q and %q are one place", text, layout.EncodeCursor(m))
		}
	})
}

func TestDatabaseAway(t *testing.T) {
	r, b := loggedIn(t)
	r.Break()
	for _, path := range []string{"/admin", "/admin/sends/0198f2b0-0000-7000-8000-000000000001"} {
		contains(t, want(t, b.Get(path), http.StatusServiceUnavailable), "The database does not answer")
		rec := b.Get("/v1" + strings.Replace(path, "/admin", "/admin/sends", 1-strings.Count(path, "sends")))
		want(t, rec, http.StatusServiceUnavailable)
		if rec.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
}
