package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// newRigWithTraffic returns a rig with two hours of traffic, and a send before them. Delivery times
// have an error of at most 2 %: 184 ms appears as 186.
func newRigWithTraffic(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.count()
	return r
}

func (r *rig) count() {
	r.Helper()
	r.writeSent("old@example.com")
	r.Clock.Add(25 * time.Hour)
	ana := r.writeSent("ana@example.com")
	r.Must(r.Store.Check(r.Context(), storetest.Right(ana.VerificationID)))
	r.writeRefused("ana@example.com", "minute", time.Minute, 3)
	r.Clock.Add(time.Hour)
	bob := r.begin("bob@example.com")
	r.Clock.Add(time.Second)
	r.finish(bob.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true})
	r.begin("eve@example.com")
	r.Clock.Add(time.Second)
}

func TestOverviewDrawsTheNumbers(t *testing.T) {
	r := newRigWithTraffic(t)
	b := r.As("reader")
	rec := b.Get("/admin/overview")
	reads(t, rec, "Sent 1 previous: 1", "Refused requests 3 previous: 0", "Codes approved – previous: –",
		"Send time, median · p95 186 ms · 186 ms previous: 186 ms · 186 ms", "6 3 0", "Refused by rule minute 3",
		"Failure reasons rejected by the server 1",
		" 1 0 0 0 3 ", "example.com – 1 1 3")
	// The hour with one sent and three refused requests has the highest bar, with space above it: a
	// quarter of the bar is green, the rest is above the green part.
	contains(t, rec, `class="good" x="665.3" y="133.3" width="23.0" height="26.7"`,
		`class="warn" x="665.3" y="53.3" width="23.0" height="80.0"`,
		`<span class="mark minor">06:00</span>`, `<span class="mark">12:00</span>`,
		`<a href="/admin?from=2026-03-05T15%3A00%3A00Z&amp;to=2026-03-05T16%3A00%3A00Z" tabindex="-1" `+
			`aria-label="03-05 15:00–16:00: Sent 1, Refused requests 3"><title>`,
		`href="/admin?blocked_by=minute&amp;last=24h"`,
		`href="/admin?domain=example.com&amp;last=24h&amp;status=failed"`)
	contains(t, b.Get("/admin/overview?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z"),
		`href="/admin?from=2020-01-01T00%3A00%3A00Z&amp;status=failed&amp;to=2020-01-02T00%3A00%3A00Z"`)
	contains(t, newRig(t).As("reader").Get("/admin/overview?last=30d"), "No request was refused in this time.", "By day, UTC", ">–</b>")
	// Messages that are reported as lost after they were accepted have a figure of their own, with
	// a link to them. There are always eight figures, in whole rows.
	servertest.Same(t, "figures", strings.Count(rec.Body.String(), `<li class="card">`), 8)
	s := r.writeSent("old@example.com", func(s *store.Send) { s.Channel = recipient.SMS })
	r.Must(r.Store.RecordReceipt(t.Context(), s.ID, store.Undelivered))
	rec = b.Get("/admin/overview")
	reads(t, rec, "Bounced later 1 previous: 0 Failed")
	contains(t, rec, `href="/admin?last=24h&amp;status=undelivered"`)
	r.Must(r.Store.ReportNotMe(t.Context(), s.VerificationID, store.NewEvent{}))
	r.Clock.Add(time.Second)
	reads(t, b.Get("/admin/overview"), "Reported by recipients 1 previous: 0")
	reads(t, b.Get("/admin/sends/"+s.ID.String()), "the recipient reported that they did not ask for it")
	contains(t, b.Get("/v1/admin/stats"), `"undelivered":1,"reported":1`, `"undelivered":0`)
}

// The API's statistics count codes by one dimension if the query names one.
func TestStatsBy(t *testing.T) {
	r := newRigWithTraffic(t)
	b := r.LoggedIn()
	for by, want := range map[string]string{
		"domain": `"codes":[{"value":"example.com","opened":3,"approved":1}]`, "country": `"codes":[],`,
		"purpose": `"codes":[{"value":"login","opened":3,"approved":1}]`,
	} {
		contains(t, b.Get("/v1/admin/stats?last=24h&by="+by), want)
	}
	lacks(t, b.Get("/v1/admin/stats"), "codes")
	contains(t, want(t, b.Get("/v1/admin/stats?by=network"), http.StatusUnprocessableEntity), `"field":"by"`)
}

// Statistics count whole hours or days, the last one up to now.
func TestStatsJSON(t *testing.T) {
	r := newRigWithTraffic(t)
	b := r.As("reader")
	read := func(query string) (s struct {
		Each      int
		Total     map[string]any
		Stretches []map[string]any
	}) {
		t.Helper()
		r.Must(json.Unmarshal(want(t, b.Get("/v1/admin/stats"+query), http.StatusOK).Body.Bytes(), &s))
		return s
	}
	day, week := read(""), read("?last=7d")
	servertest.Same(t, "seconds of an hour", day.Each, 3600)
	servertest.Same(t, "seconds of a day", week.Each, 86400)
	holds(t, day.Total, map[string]any{"sends": 3., "sent": 1., "failed": 1., "unknown": 0., "under_way": 1., "refused": 3.})
	holds(t, week.Total, map[string]any{"sends": 4., "sent": 2., "failed": 1., "unknown": 0., "under_way": 1., "refused": 3.})
	servertest.Same(t, "hours", len(day.Stretches), 25)
	servertest.Same(t, "days", len(week.Stretches), 8)
	holds(t, day.Stretches[23], map[string]any{
		"at": "2026-03-05T15:00:00.000Z", "sends": 1., "sent": 1., "refused": 3., "opened": 1., "approved": 1., "approval_rate": 1.,
		"median_ms": 186., "p95_ms": 186.,
	})
	holds(t, day.Stretches[24], map[string]any{
		"at": "2026-03-05T16:00:00.000Z", "sends": 2., "sent": 0., "failed": 1., "under_way": 1., "refused": 0., "opened": 2.,
		"approved": 0., "median_ms": nil,
	})
	holds(t, week.Stretches[0], map[string]any{"at": "2026-02-26T00:00:00.000Z", "sends": 0., "approval_rate": nil})
	holds(t, week.Stretches[7], map[string]any{"at": "2026-03-05T00:00:00.000Z", "sends": 3., "approval_rate": 0.333})
	for query, field := range map[string]string{
		"status=sent": "status", "from=2026-01-01T00:00:00Z": "from", "from=2026-03-06T00:00:00Z&to=2026-03-05T00:00:00Z": "to", "x=y": "x",
	} {
		servertest.Same(t, query, problemOf(t, b.Get("/v1/admin/stats?"+query), server.InvalidField).Field, field)
	}
	r.Break("Stats")
	problemOf(t, b.Get("/v1/admin/stats"), server.Unavailable)
}

// The overview counts codes separately by app, purpose, domain, carrier or country.
func TestOverviewBy(t *testing.T) {
	r := newRigWithTraffic(t)
	for _, country := range []string{"DE", "001"} {
		r.writeSent(country+"@example.com", func(s *store.Send) { s.Channel, s.Country = recipient.SMS, country })
	}
	b := r.As("reader")
	const page = "/admin/overview?last=7d&by="
	for by, row := range map[string]string{
		"app": "App Codes approved Approved Codes shop – 1 6", "purpose": "Purpose Codes approved Approved Codes login – 1 6",
		"domain":  "Mail domain Codes approved Approved Codes example.com – 1 6",
		"carrier": "Mail server or carrier Codes approved Approved Codes mx1.example.net – 1 4",
		"country": "Country of the number Codes approved Approved Codes 001 – 0 1 Germany (DE) – 0 1",
	} {
		reads(t, b.Get(page+by), row)
	}
	reads(t, newRig(t).As("reader").Get(page+"country"), "No code was opened in this time.")
	contains(t, want(t, b.Get("/admin/overview?by=status"), http.StatusUnprocessableEntity), "Codes can be counted by app, purpose, domain")
}

func TestPercentChange(t *testing.T) {
	for _, c := range []struct {
		now, before float64
		want        string
	}{
		{3, 2, "+50 %"},
		{1, 2, "−50 %"},
		{0, 2, "−100 %"},
		{2, 2, "±0 %"},
		{1000, 1001, "±0 %"},
		{2, 0, ""},
		{0, 0, ""},
		{1200, 1, "+119900 %"},
	} {
		servertest.Same(t, fmt.Sprint(c.now, " after ", c.before), percentChange(c.now, c.before, 20), c.want)
	}
	servertest.Same(t, "of few", percentChange(3, 2, 19), "")
}

// A change counts as good or bad news only if chance does not explain it.
func TestFigureViewsJudgeAChange(t *testing.T) {
	total := func(failed, approved int, median int64) Total {
		rate := float64(approved) / 1000
		return Total{
			sendCounts:   sendCounts{Sent: 1000, Failed: failed},
			codeMeasures: codeMeasures{Opened: 1000, Rate: &rate, MedianMS: &median},
		}
	}
	type judged struct{ better, worse string } // the figures' names
	const sendTime = "Send time, median · p95"
	for _, c := range []struct {
		now  Total
		want judged
	}{
		{total(100, 900, 200), judged{}},
		{total(110, 910, 208), judged{}},
		{total(150, 900, 200), judged{worse: "Failed"}},
		{total(60, 900, 200), judged{better: "Failed"}},
		{total(100, 840, 200), judged{worse: "Codes approved"}},
		{total(100, 950, 200), judged{better: "Codes approved"}},
		{total(100, 900, 300), judged{worse: sendTime}},
		{total(100, 900, 120), judged{better: sendTime}},
	} {
		var got judged
		for _, f := range figureViews(c.now, total(100, 900, 200), texts.ConsoleTextsFor("en")) {
			if f.Better {
				got.better += f.Name
			}
			if f.Worse {
				got.worse += f.Name
			}
		}
		servertest.Same(t, fmt.Sprint(c.now.Failed, *c.now.Rate, *c.now.MedianMS), got, c.want)
	}
}

// The end of the overview shows how old the database's rows are, and which old rows are still due
// to be deleted.
func TestOverviewSaysHowFarTheDatabaseReaches(t *testing.T) {
	r := newRigWithTraffic(t)
	b := r.As("reader")
	contains(t, b.Get("/admin/overview"), "Its rows are kept for 90 d.", "It reaches back to ")
	e := store.StorageStatus{
		Age: 24 * time.Hour, Due: store.MaxDueCounted, Forgetting: 2, ForgettingDue: 1,
		Partitions: []store.Partition{
			{Name: "sends_before", Ends: consoletest.Start, Rows: -1, Bytes: 900},
			{Name: "sends_2027_01", Begins: consoletest.Start, Ends: consoletest.Start.AddDate(0, 1, 0), Rows: 5, Bytes: 3 << 20},
		},
	}
	r.console.StorageStatus = func(context.Context) (store.StorageStatus, error) { return e, nil }
	rec := b.Get("/admin/overview")
	contains(t, rec, "It is empty.", "10000 rows or more are older", "The keyed hashes of 2 erased recipients", "1 of these should be deleted already.", "3 MiB", "900 B")
	reads(t, rec, "sends_before – 2026-03-04 – 900 B sends_2027_01 2026-03-04 2026-04-04 5 3 MiB")
	e = store.StorageStatus{}
	contains(t, b.Get("/admin/overview"), "Its rows are kept for ever.")
}

// The overview has percentages from twenty codes on.
func TestOverviewOfTwentyCodes(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		s := r.writeSent(fmt.Sprintf("p%d@example.com", i))
		if i%4 == 0 {
			r.Must(r.Store.Check(context.Background(), storetest.Right(s.VerificationID)))
		}
	}
	reads(t, r.As("reader").Get("/admin/overview"), "Codes approved 25.0 % previous: –", "example.com 25.0 % 5 20")
}
