package console

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/listing"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
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

func TestListShowsWhatHappened(t *testing.T) {
	r := newRig(t)
	r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" })
	r.Clock.Add(10 * time.Second)
	r.refused("ana@example.com", "minute", 49500*time.Millisecond, 3)
	failed := r.begin("w@qq.com")
	r.Clock.Add(96 * time.Millisecond)
	r.finish(failed.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Provider: "mx1", ProviderCode: "550 5.1.1", Took: 96 * time.Millisecond, Refund: true})
	kept := r.begin("k@example.com")
	r.finish(kept.Send, store.Outcome{Status: store.Failed, Reason: "template"})
	r.refused("zoe@example.com", "hour", time.Minute, 2)
	unknown := r.begin("li@example.com")
	r.finish(unknown.Send, store.Outcome{Status: store.Unknown, Reason: "no_answer", Provider: "mx1", Took: 61 * time.Second})
	queued := r.begin("q@example.com")
	r.OK(r.Log.Postpone(context.Background(), store.Postponement{Held: store.Held{ID: queued.Send.ID, Attempt: 1}, After: time.Second, Reason: "temporary_aside", Provider: "mx1"}))
	r.begin("s@example.com")

	rec := r.loggedIn().Get("/admin")
	want(t, rec, http.StatusOK)
	if got := len(rowsIn(rec.Body.String())); got != 8 {
		t.Fatalf("%d rows", got)
	}
	contains(t, rec, "a•••@example.com", "w•••@qq.com", "login",
		"sent", "250 2.0.0", "mx1.example.net", "184 ms", `data-exact title="2026-03-04 14:02:20 UTC"`, "14:02:20.118",
		"refused", "minute · 50 s left · ×3", "hour · 1 min left · ×2", `"why">the message could not be made</td>`,
		"failed", "550 5.1.1 · rejected by the server · did not count", "96 ms",
		"unknown", "no answer after the whole mail", "1 min 1 s",
		"queued", "it was set aside after failures and not tried · will be tried again", "sending")
	lacks(t, rec, "ana@", "w@qq", "li@", "order-7")
}

func TestListNamesWhatIsSetAside(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Aside = func() []Aside {
			return []Aside{
				{Server: "mx1.example:587", Since: consoletest.Start.Add(-90 * time.Second), Why: "dial: temporary: <refused>"},
				{Carrier: true, Server: "aliyun", Since: consoletest.Start.Add(-time.Minute), Why: "dial: temporary"},
			}
		}
	})
	contains(t, r.loggedIn().Get("/admin"), "The carrier <b>aliyun</b> has been set aside for 1 min: dial: temporary. Text messages go to the next one")
	contains(t, r.loggedIn().Get("/admin"), "<b>mx1.example:587</b> has been set aside for 1 min 30 s: dial: temporary: &lt;refused&gt;.")
	lacks(t, newRig(t).loggedIn().Get("/admin"), "set aside")
}

func TestListSaysWhyItIsEmpty(t *testing.T) {
	_, b := loggedIn(t)
	contains(t, b.Get("/admin"), "Nothing has been sent yet")
	contains(t, b.Get("/admin?limit=5"), "Nothing has been sent yet")
	contains(t, b.Get("/admin?status=sent"), "Nothing matches")
	contains(t, b.Get("/admin?recipient="+strings.Repeat("0", 32)), "No request for this recipient reached us")
	contains(t, b.Get("/admin?cursor="+listing.WriteCursor(store.Mark{At: consoletest.Start})), "There is nothing older")
}

// Rows that come in while a reader pages neither repeat a row nor hide one.
func TestPagingWhileRowsComeIn(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 23 {
		all = append(all, r.refused("ana@example.com", "minute", time.Minute, 1).ID.String())
		if i%5 == 4 { // five rows share each instant
			r.Clock.Add(time.Millisecond)
		}
	}
	slices.Reverse(all)
	b := r.loggedIn()
	var seen []string
	path, pages := "/admin?limit=5&status=refused", 0
	for path != "" && pages < 10 {
		rec := b.Get(path)
		want(t, rec, http.StatusOK)
		seen = append(seen, rowsIn(rec.Body.String())...)
		if pages > 0 && linkIn(rec.Body.String(), "Newest") != "/admin?limit=5&status=refused" {
			t.Errorf("page %d: newest is %q", pages+1, linkIn(rec.Body.String(), "Newest"))
		}
		path, pages = linkIn(rec.Body.String(), "Older"), pages+1
		r.refused("bo@example.com", "minute", time.Minute, 1)
		r.Clock.Add(time.Millisecond)
	}
	if !slices.Equal(seen, all) || pages != 5 {
		t.Errorf("%d pages, %d rows, want 5 and 23:\n%v\n%v", pages, len(seen), seen, all)
	}
}

// Paging back shows the same pages, and ends on a first page that is full.
func TestPagingBack(t *testing.T) {
	r := newRig(t)
	for i := range 12 {
		r.refused("ana@example.com", "minute", time.Minute, 1)
		if i%4 == 3 {
			r.Clock.Add(time.Millisecond)
		}
	}
	b := r.loggedIn()
	var down, up []string
	var path string
	for next := "/admin?limit=5"; next != ""; {
		path = next
		rec := b.Get(path)
		down, next = append(down, rowsIn(rec.Body.String())...), linkIn(rec.Body.String(), "Older")
	}
	path = linkIn(b.Get(path).Body.String(), "Newer")
	rec := b.Get(path)
	contains(t, rec, ">Older</a>", ">Newer</a>", ">Newest</a>")
	up = append(rowsIn(rec.Body.String()), up...)
	r.refused("bo@example.com", "minute", time.Minute, 1) // one more than the first page had
	rec = b.Get(linkIn(rec.Body.String(), "Newer"))
	if rows := rowsIn(rec.Body.String()); !slices.Equal(rows, down[:5]) || !slices.Equal(up, down[5:10]) {
		t.Errorf("down:\n%v\nup:\n%v\n%v", down, rows, up)
	}
	rec = b.Get(linkIn(rec.Body.String(), "Newer"))
	if rows := rowsIn(rec.Body.String()); len(rows) != 5 || !slices.Equal(rows[1:], down[:4]) || linkIn(rec.Body.String(), "Newer") != "" || linkIn(rec.Body.String(), "Newest") != "" {
		t.Errorf("the first page: %v, newer %q", rows, linkIn(rec.Body.String(), "Newer"))
	}
	want(t, b.Get("/admin?newer=x"), http.StatusUnprocessableEntity)
	cursor := listing.WriteCursor(store.Mark{At: r.Clock.Now()})
	want(t, b.Get("/admin?newer="+cursor+"&cursor="+cursor), http.StatusUnprocessableEntity)
}

func TestFilters(t *testing.T) {
	r := newRig(t)
	sent := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" }).ID.String()
	r.Clock.Add(time.Hour)
	middle := r.Clock.Now()
	refused := r.refused("bo@example.com", "hour", time.Minute, 1, func(s *store.Send) { s.App = "desk" }).ID.String()
	sms := r.refused("bo@example.com", "day", time.Minute, 1, func(s *store.Send) {
		s.Channel, s.Purpose, s.To, s.Country = recipient.SMS, "signup", "+49 151•••021", "DE"
	}).ID.String()
	_, hash := r.recipient("BO@example.com")
	b := r.loggedIn()
	at := func(t time.Time) string { return url.QueryEscape(t.Format(time.RFC3339Nano)) }
	for query, ids := range map[string][]string{
		"":                           {sms, refused, sent},
		"status=sent":                {sent},
		"channel=sms":                {sms},
		"purpose=signup":             {sms},
		"app=desk":                   {refused},
		"blocked_by=hour":            {refused},
		"reference=order-7":          {sent},
		"carrier=mx1.example.net":    {sent},
		"country=de":                 {sms},
		"domain=EXAMPLE.com":         {refused, sent},
		"recipient=" + hash.String(): {sms, refused},
		"from=" + at(middle):         {sms, refused},
		"to=" + at(middle):           {sent},
		"from=2026-03-04T15:00":      {sms, refused},
		"last=24h":                   {sms, refused, sent},
		"last=1h":                    {sms, refused},
		"from=" + at(consoletest.Start) + "&last=1h":       {sms, refused, sent},
		"status=&channel=&last=&cursor=&limit=&recipient=": {sms, refused, sent},
	} {
		rec := b.Get("/admin?" + query)
		if got := rowsIn(rec.Body.String()); rec.Code != http.StatusOK || !slices.Equal(got, ids) {
			t.Errorf("%s: %d %v, want %v", query, rec.Code, got, ids)
		}
	}
}

func TestFiltersStayInTheForm(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.refused("bo@example.com", "hour", time.Minute, 1)
	}
	_, hash := r.recipient("bo@example.com")
	rec := r.loggedIn().Get("/admin?limit=1&status=refused&last=7d&blocked_by=hour&from=2026-03-04T16:00:00%2B08:00&recipient=" + hash.String())
	contains(t, rec, `<option value="refused" selected>`, `<option value="7d" selected>`, `name="blocked_by" value="hour"`,
		`name="from" type="datetime-local" step="1" value="2026-03-04T08:00:00"`, `name="recipient" value="`+hash.String()+`"`, "<details open>", "Only <b>b•••@example.com</b>")
	older := linkIn(rec.Body.String(), "Older")
	for _, part := range []string{"status=refused", "last=7d", "blocked_by=hour", "limit=1", "recipient=" + hash.String(), "cursor="} {
		if !strings.Contains(older, part) {
			t.Errorf("%q is not in the older page's address %q", part, older)
		}
	}
	if all := linkIn(r.loggedIn().Get(older).Body.String(), "Show all"); strings.Contains(all, "recipient") || strings.Contains(all, "cursor") || !strings.Contains(all, "status=refused") {
		t.Errorf("show all leads to %q", all)
	}
}

func TestBadFiltersAreNamed(t *testing.T) {
	b := newRig(t).loggedIn()
	long := strings.Repeat("x", 65)
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=201": "limit", "limit=x": "limit", "limit=1.5": "limit", "limit=99999999999999999999": "limit", "limit=-1": "limit",
		"cursor=x": "cursor", "cursor=" + strings.Repeat("A", 34): "cursor", "cursor=" + listing.WriteCursor(store.Mark{At: consoletest.Start}) + "A": "cursor",
		"cursor=" + strings.Repeat("_", 34): "cursor", "cursor=%00": "cursor", "cursor=" + respelt(listing.WriteCursor(store.Mark{At: consoletest.Start})): "cursor",
		"cursor=" + listing.WriteCursor(store.Mark{At: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)}): "cursor",
		"status=delivered2": "status", "status=SENT": "status", "status=%00": "status",
		"channel=fax": "channel", "channel=Email": "channel",
		"recipient=ana%40example.com": "recipient", "recipient=" + strings.Repeat("A", 32): "recipient", "recipient=00": "recipient",
		"from=yesterday": "from", "from=2026-13-01T00:00:00Z": "from", "from=0001-01-01T00:00:00Z": "from", "to=10000-01-01T00:00:00Z": "to",
		"from=2026-03-04T14:00:00+08:00":                    "from", // the plus sign is a space here
		"from=2026-03-05T00:00:00Z&to=2026-03-04T00:00:00Z": "to", "from=2026-03-04T00:00:00Z&to=2026-03-04T00:00:00Z": "to",
		"purpose=" + long: "purpose", "app=%ff": "app", "blocked_by=a%00b": "blocked_by", "country=XX": "country", "country=%00": "country", "domain=ana@example.com": "domain", "domain=localhost": "domain", "carrier=%0a": "carrier", "reference=%0a": "reference",
		"last=2h": "last", "offset=10": "offset", "status=sent&status=sent": "status", long + "=1": strings.Repeat("x", 64) + "…",
		"Status=sent": "Status",
	} {
		rec := b.Get("/v1/admin/sends?" + query)
		if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
		lacks(t, rec, "ana@")
		contains(t, want(t, b.Get("/admin?"+query), http.StatusUnprocessableEntity), "<b>"+field+"</b>", "This filter cannot be read")
	}
	want(t, b.Get("/v1/admin/sends?a=%zz"), http.StatusBadRequest)
	want(t, b.Get("/admin?a;b"), http.StatusBadRequest)
}

// respelt is other base64 of the same bytes: the bits that the last letter has to spare are set.
func respelt(cursor string) string { return cursor[:len(cursor)-1] + "B" }

func FuzzCursor(f *testing.F) {
	f.Add(listing.WriteCursor(store.Mark{At: consoletest.Start}))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := listing.ReadCursor(text); ok && listing.WriteCursor(m) != text {
			t.Errorf("%q and %q are one place", text, listing.WriteCursor(m))
		}
	})
}

func TestLogAway(t *testing.T) {
	r, b := loggedIn(t)
	r.Break()
	for _, path := range []string{"/admin", "/admin/sends/0198f2b0-0000-7000-8000-000000000001"} {
		contains(t, want(t, b.Get(path), http.StatusServiceUnavailable), "The log does not answer")
		rec := b.Get("/v1" + strings.Replace(path, "/admin", "/admin/sends", 1-strings.Count(path, "sends")))
		want(t, rec, http.StatusServiceUnavailable)
		if rec.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
}

// A row that stands for several recipients is shown as one of several wherever rows are shown, and is none of a recipient's.
func TestRowsOfSeveralRecipients(t *testing.T) {
	r := newRig(t)
	row := r.refused("anna@example.com", "office", time.Hour, 90, func(s *store.Send) {
		s.Recipient, s.To, s.Recipients, s.IP = recipient.Hash{}, "", 42, "192.0.2.0/24"
	})
	r.refused("anna@example.com", "office", time.Hour, 1)
	b := r.loggedIn()
	contains(t, b.Get("/admin"), "and 42 more recipients", "×90")
	page := b.Get("/admin/sends/" + row.ID.String())
	contains(t, page, "It stands for about 42 recipients", "The row stands for several recipients.", "and 42 more recipients")
	lacks(t, page, `id="answer"`, "?recipient=", "/admin/sends/"+row.ID.String()+"/")
	_, hash := r.recipient("anna@example.com")
	lacks(t, b.Get("/admin?recipient="+hash.String()), "×90")
	r.Clock.Add(time.Second)
	contains(t, b.Get("/admin/overview"), ">91</a>")
	list := b.list("sends", "/v1/admin/sends")
	if one, several := list[0], list[1]; one["recipients"] != nil || several["recipients"] != 42.0 || several["recipient"] != "" || several["to"] != "" || several["count"] != 90.0 {
		t.Errorf("%v", list)
	}
	exported := exportOf(t, b.Get("/v1/admin/sends.csv").Body.Bytes())
	if one, several := exported[0], exported[1]; one["recipients"] != "" || several["recipients"] != "42" || several["recipient"] != "" || several["count"] != "90" {
		t.Errorf("%v", exported)
	}
}
