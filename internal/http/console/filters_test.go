package console

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

func TestFilters(t *testing.T) {
	r := newRig(t)
	ana := r.writeSent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" }) // at 14:02:20.118
	r.Must(r.Store.Check(t.Context(), storetest.Right(ana.VerificationID)))
	r.Clock.Add(time.Hour)
	bo := r.writeRefused("bo@example.com", "hour", time.Minute, 1, func(s *store.SendOrRefusal) { s.App, s.Network = "desk", "198.51.100.0/24" })
	number := r.writeRefused("bo@example.com", "day", time.Minute, 1, func(s *store.SendOrRefusal) {
		s.Channel, s.Purpose, s.To, s.Country = recipient.SMS, "signup", "+49 151•••021", "DE"
	})
	names := map[string]string{ana.ID.String(): "ana", bo.ID.String(): "bo", number.ID.String(): "number"}
	b := r.LoggedIn()
	for query, rows := range map[string][]string{
		"": {"number", "bo", "ana"},
		"status=&channel=&last=&cursor=&limit=&recipient=": {"number", "bo", "ana"},
		"status=sent":                           {"ana"},
		"channel=sms":                           {"number"},
		"purpose=signup":                        {"number"},
		"app=desk":                              {"bo"},
		"blocked_by=hour":                       {"bo"},
		"reference=order-7":                     {"ana"},
		"carrier=mx1.example.net":               {"ana"},
		"country=de":                            {"number"},
		"domain=EXAMPLE.com":                    {"bo", "ana"},
		"recipient=" + bo.Recipient.String():    {"number", "bo"},
		"outcome=entered":                       {"ana"},
		"outcome=waiting":                       nil,
		"network=198.51.100.0/24":               {"bo"},
		"network=198.51.100.77":                 {"bo"},
		"network=198.51.100.77/24":              {"bo"},
		"from=2026-03-04T15:02:20.302Z":         {"number", "bo"},
		"to=2026-03-04T15:02:20.302Z":           {"ana"},
		"from=2026-03-04T15:00":                 {"number", "bo"},
		"last=24h":                              {"number", "bo", "ana"},
		"last=1h":                               {"number", "bo"},
		"from=2026-03-04T14:02:20.118Z&last=1h": {"number", "bo", "ana"},
		// a filter without an index reads one day: the last day, or the day before the filter's end
		"network=198.51.100.0/24&to=2026-03-04T14:00":         nil,
		"network=198.51.100.0/24&to=2026-03-05T14:02:20.302Z": {"bo"},
		"network=198.51.100.0/24&to=2026-03-05T16:02:20.302Z": nil,
	} {
		var got []string
		for _, id := range rowsIn(want(t, b.Get("/admin?"+query), http.StatusOK).Body.String()) {
			got = append(got, names[id])
		}
		if !slices.Equal(got, rows) {
			t.Errorf("%s: %v, want %v", query, got, rows)
		}
	}
}

// A filter that cannot be read gets a problem that names the parameter. The page shows the form and
// the same message.
func TestUnreadableFilters(t *testing.T) {
	b := newRig(t).LoggedIn()
	const cursor = "AQAGTDNEtn_wAAAAAAAAAAAAAAAAAAAAAA"
	long := strings.Repeat("x", 65)
	shown := strings.NewReplacer("\x00", "�", "\n", "�", "\xff", "�", long, long[:64]+"…").Replace
	for _, c := range []struct{ query, field, reason string }{
		{"limit=0", "limit", "invalid"},
		{"limit=201", "limit", "invalid"},
		{"limit=1.5", "limit", "invalid"},
		{"cursor=x", "cursor", "invalid"},
		{"cursor=" + cursor + "A", "cursor", "invalid"},
		{"cursor=__________________________________", "cursor", "invalid"},
		{"cursor=%00", "cursor", "invalid"},
		{"cursor=AQAGTDNEtn_wAAAAAAAAAAAAAAAAAAAAAB", "cursor", "invalid"},
		{"cursor=Af___-viKKAAAAAAAAAAAAAAAAAAAAAAAA", "cursor", "invalid"},
		{"status=SENT", "status", "invalid"},
		{"status=%00", "status", "invalid"},
		{"channel=fax", "channel", "invalid"},
		{"outcome=sent", "outcome", "invalid"},
		{"network=home", "network", "invalid"},
		{"recipient=cy%40example.com", "recipient", "invalid"},
		{"recipient=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "recipient", "invalid"},
		{"recipient=00", "recipient", "invalid"},
		{"from=yesterday", "from", "invalid"},
		{"from=0001-01-01T00:00:00Z", "from", "invalid"},
		{"to=10000-01-01T00:00:00Z", "to", "invalid"},
		{"from=2026-03-04T14:00:00+08:00", "from", "invalid"},
		{"from=2026-03-04T00:00:00Z&to=2026-03-04T00:00:00Z", "to", "invalid"},
		{"app=%ff", "app", "invalid"},
		{"reference=%0a", "reference", "invalid"},
		{"country=XX", "country", "invalid"},
		{"domain=cy@example.com", "domain", "invalid"},
		{"domain=localhost", "domain", "invalid"},
		{"support=order-7", "support", "invalid"},
		{"last=2h", "last", "invalid"},
		{"offset=10", "offset", "unknown"},
		{"status=sent&status=sent", "status", "repeated"},
		{"unserved=voip&recipient=abababababababababababababababab", "unserved", "unknown"},
		{"newer=x", "newer", "invalid"},
		{"newer=" + cursor + "&cursor=" + cursor, "newer", "invalid"},
		{"purpose=" + long, "purpose", "invalid"},
		{long + "=1", long[:64] + "…", "unknown"},
	} {
		if got := problemOf(t, b.Get("/v1/admin/sends?"+c.query), server.InvalidField); got.Field != c.field || got.Reason != c.reason {
			t.Errorf("%s: %+v, want %s %s", c.query, got, c.field, c.reason)
		}
		page := want(t, b.Get("/admin?"+c.query), http.StatusUnprocessableEntity)
		if value, _ := url.ParseQuery(c.query); c.reason == "invalid" {
			contains(t, page, "You gave “"+html.EscapeString(shown(value.Get(c.field)))+"”.")
			contains(t, b.Get("/admin?"+c.query, "Accept-Language", "zh"), "收到的值是“"+html.EscapeString(shown(value.Get(c.field)))+"”。")
		} else {
			lacks(t, page, "You gave")
		}
		contains(t, page, "This filter cannot be read", c.field, ` href="/admin">`, ` action="/admin/filter"`, ` id="filter-problem"`)
	}
	for _, path := range []string{"/v1/admin/sends?a=%zz", "/admin?a;b"} {
		problemOf(t, b.Get(path), server.BadRequest)
	}
}

// problem has the members of a problem that tests compare.
type problem struct{ Type, Field, Reason string }

// problemOf returns the problem in an answer. It fails the test if the problem has another kind.
func problemOf(t *testing.T, rec *httptest.ResponseRecorder, kind server.ProblemKind) (p problem) {
	t.Helper()
	want(t, rec, kind.Status)
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || rec.Header().Get("Content-Type") != "application/problem+json" ||
		!strings.HasSuffix(p.Type, "/"+kind.Slug) || !strings.HasSuffix(rec.Header().Get("Cache-Control"), "no-store") {
		t.Errorf("%v %+v, want %s: %s", err, p, kind.Slug, rec.Body)
	}
	return p
}

// textOf returns the text of a page as a reader sees it.
func textOf(rec *httptest.ResponseRecorder) string {
	_, main, _ := strings.Cut(rec.Body.String(), "<main")
	return html.UnescapeString(strings.Join(strings.Fields(markup.ReplaceAllString("<main"+main, " ")), " "))
}

// An empty list names its filters in words. A list that is empty after a cursor says that there are
// no more rows.
func TestEmptyListSaysWhy(t *testing.T) {
	b := newRig(t).LoggedIn()
	nobody := strings.Repeat("0", 32)
	for path, says := range map[string]string{
		"/admin":             "Nothing has been sent yet.",
		"/admin?limit=5":     "Nothing has been sent yet.",
		"/admin?status=sent": "Nothing matches: State: sent.",
		"/admin?status=sent&app=shop&last=24h&reference=a":  "Nothing matches: App: shop, Time: last 24 h, Reference: a, State: sent.",
		"/admin?from=2026-03-04T00:00:00Z":                  "Nothing matches: From (UTC): 2026-03-04 00:00:00 UTC.",
		"/admin?country=DE&app=login":                       "Nothing matches: App: login, Country of the number: Germany (DE).",
		"/admin/acts?who=stranger":                          "Nothing matches: Who: stranger.",
		"/admin/acts?what=quota.reset":                      "Nothing matches: Act: reset the quota.",
		"/admin/webhooks?app=desk&state=pending":            "Nothing matches: App: desk, State: pending.",
		"/admin/suppressions":                               "Nobody is suppressed.",
		"/admin/suppressions?state=all&recipient=" + nobody: "Nothing matches: Only one recipient.",
		"/admin?recipient=" + nobody:                        "No request for this recipient is recorded",
		"/admin?cursor=AQAGTDNEtn_wAAAAAAAAAAAAAAAAAAAAAA":  "There is nothing older.",
	} {
		if got := textOf(want(t, b.Get(path), http.StatusOK)); !strings.Contains(got, says) {
			t.Errorf("%s: %q is not in %q", path, says, got)
		}
	}
	// the form keeps the filters of the request
	contains(t, b.Get("/admin?app=shop&reference=a&from=2026-03-04T00:00:00Z&status=sent"), `name="app" value="shop"`,
		`name="reference" value="a"`, `value="2026-03-04T00:00:00"`, `<option value="sent" selected>`, "<details open", ">Clear</a>")
	lacks(t, b.Get("/admin"), "<details open", ">Clear</a>")
}

// Pages and fields have times in the reader's zone. An address has times with a zone, so that it
// means the same for other readers.
func TestTimesAreInTheReadersZone(t *testing.T) {
	r := newRigWithTraffic(t)
	b := r.LoggedIn()
	redirects(t, b.Post("/admin/prefer", url.Values{"zone": {"Asia/Kolkata"}}), "/admin")
	reads(t, b.Get("/admin?last=24h"), "2026-03-05 21:32:21", "From (UTC&#43;5:30)")
	const address = "/admin?from=2026-03-05T18%3A00%3A00Z"
	redirects(t, b.Get("/admin?from=2026-03-05T23:30:00"), address)
	contains(t, b.Get(address), `value="2026-03-05T23:30:00"`)
	for zone, first := range map[string]string{ // the first instant of a week's statistics
		"Asia/Kolkata":  "from=2026-02-25T19%3A00%3A00Z&amp;to=2026-02-26T19%3A00%3A00Z",
		"Asia/Shanghai": "from=2026-02-26T16%3A00%3A00Z&amp;to=2026-02-27T16%3A00%3A00Z",
		"UTC":           "from=2026-02-26T00%3A00%3A00Z&amp;to=2026-02-27T00%3A00%3A00Z",
	} {
		redirects(t, b.Post("/admin/prefer", url.Values{"zone": {zone}}), "/admin")
		contains(t, b.Get("/admin/overview?last=7d"), first)
	}
}
