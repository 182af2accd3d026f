package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func statistics(t *testing.T, f *Fixture) {
	hour := f.Now.Truncate(time.Hour).Add(time.Hour)
	f.Pass(hour.Sub(f.Now))
	begin := f.Now
	end := func(n int, took time.Duration, o store.Outcome, changes ...func(*store.Intent)) store.Begun {
		begun := f.Admit(t, f.Intent(n, changes...))
		f.Pass(took)
		o.Held = store.Held{ID: begun.Send.ID, Attempt: 1}
		f.MustFinish(t, o, true)
		return begun
	}
	first := end(1, time.Second, store.Outcome{Status: store.Sent})
	again := f.Intent(1)
	again.Join = first.Verification.ID
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, again).Send.ID, Attempt: 1}, Status: store.Sent}, true) // at once, and of the same code
	end(2, 3*time.Second, store.Outcome{Status: store.Sent}, func(in *store.Intent) { in.Send.App = "desk" })
	end(3, 2*time.Second, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true})
	_, err := f.Approve(t.Context(), first.Verification.ID, store.Tell{})
	OK(t, err)
	for range 2 {
		r := f.Refusal(1, func(s *store.Send) { s.Count = 3 })
		OK(t, f.Refused(t.Context(), []store.Send{r}))
	}
	f.Pass(begin.Add(time.Hour).Sub(f.Now)) // the next stretch begins
	end(4, 4*time.Second, store.Outcome{Status: store.Unknown, Reason: "no_answer"}, func(in *store.Intent) { in.Send.Channel = recipient.SMS })
	f.Admit(t, f.Intent(5)) // under way
	f.Pass(begin.Add(2 * time.Hour).Sub(f.Now))
	end(6, time.Second, store.Outcome{Status: store.Sent}) // after the time that is asked for

	ask := func(q store.StatsQuery, want store.Stats) {
		t.Helper()
		q.From, q.To, q.Each = begin, begin.Add(2*time.Hour), time.Hour
		got, err := f.Stats(t.Context(), q)
		OK(t, err)
		Equal(t, "statistics", got, want)
	}
	next := begin.Add(time.Hour)
	ask(store.StatsQuery{}, store.Stats{
		Tallies: []store.Tally{
			{At: begin, Status: store.Failed, Reason: store.ReasonRejected, Rows: 1, Requests: 1}, {At: begin, Status: store.Refused, BlockedBy: "minute", Rows: 2, Requests: 6},
			{At: begin, Status: store.Sent, Rows: 3, Requests: 3},
			{At: next, Status: store.Sending, Rows: 1, Requests: 1}, {At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1},
		},
		Stretches: []store.Stretch{{At: begin, Measures: store.Measures{Opened: 3, Approved: 1, Median: time.Second, P95: 3 * time.Second}}, {At: next, Measures: store.Measures{Opened: 2}}},
		Measures:  store.Measures{Opened: 5, Approved: 1, Median: time.Second, P95: 3 * time.Second},
	})
	desk, texts := store.Measures{Opened: 1, Approved: 0, Median: 3 * time.Second, P95: 3 * time.Second}, store.Measures{Opened: 1}
	ask(store.StatsQuery{App: "desk"}, store.Stats{Tallies: []store.Tally{{At: begin, Status: store.Sent, Rows: 1, Requests: 1}}, Stretches: []store.Stretch{{At: begin, Measures: desk}}, Measures: desk})
	ask(store.StatsQuery{Channel: recipient.SMS}, store.Stats{
		Tallies: []store.Tally{{At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1}}, Stretches: []store.Stretch{{At: next, Measures: texts}}, Measures: texts,
	})
	ask(store.StatsQuery{Purpose: "nothing"}, store.Stats{})
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, f.Intent(7, func(in *store.Intent) { in.Send.To = "b•••@example.org" })).Send.ID, Attempt: 1}, Status: store.Failed, Reason: "expired"}, true)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, f.Intent(8, func(in *store.Intent) { in.Send.To = "+49 151•••021" })).Send.ID, Attempt: 1}, Status: store.Failed, Reason: "expired"}, true)
	for _, c := range []struct {
		q    store.StatsQuery
		want []store.DomainTally
	}{
		{store.StatsQuery{To: begin.Add(2 * time.Hour)}, []store.DomainTally{{Domain: "example.com", Sends: 6, Failed: 1, Rejected: 1}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour)}, []store.DomainTally{{Domain: "example.com", Sends: 7, Failed: 1, Rejected: 1}, {Domain: "example.org", Sends: 1, Failed: 1, Rejected: 0}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour), App: "desk"}, nil},
	} {
		c.q.From, c.q.Each = begin, time.Hour
		got, err := f.Domains(t.Context(), c.q)
		OK(t, err)
		Equal(t, "domains", got, c.want)
	}
	for _, q := range []store.StatsQuery{
		{}, {From: begin, To: begin, Each: time.Hour}, {From: begin, To: next}, {From: begin, To: next, Each: time.Millisecond},
		{From: begin, To: next, Each: time.Hour, App: "a\x00"},
	} {
		_, err := f.Stats(t.Context(), q)
		Is(t, err, store.ErrBadRequest)
		_, err = f.Domains(t.Context(), q)
		Is(t, err, store.ErrBadRequest)
	}
}

// Text messages that a carrier took, or may have, and says were lost are counted beside what was sent.
func lostTexts(t *testing.T, f *Fixture) {
	from := f.Now.Truncate(time.Hour)
	text := func(o store.Outcome, said store.Status, changes ...func(*store.Intent)) {
		t.Helper()
		begun := f.Admit(t, f.Intent(1, append(changes, func(in *store.Intent) { in.Send.Channel = recipient.SMS })...))
		o.Held = store.Held{ID: begun.Send.ID, Attempt: 1}
		f.MustFinish(t, o, true)
		if said != "" {
			changed, err := f.Receive(t.Context(), begun.Send.ID, said)
			OK(t, err)
			Equal(t, "received", changed, true)
		}
	}
	desk := func(in *store.Intent) { in.Send.App = "desk" }
	text(store.Outcome{Status: store.Sent}, store.Undelivered)
	text(store.Outcome{Status: store.Sent}, store.Undelivered, desk)
	text(store.Outcome{Status: store.Sent}, store.Delivered)
	text(store.Outcome{Status: store.Sent}, "")
	text(store.Outcome{Status: store.Unknown, Reason: "no_answer"}, store.Undelivered)
	late := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.Channel = recipient.SMS }))
	_, err := f.Receive(t.Context(), late.Send.ID, store.Undelivered)
	OK(t, err)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: late.Send.ID, Attempt: 1}, Status: store.Failed, Reason: store.ReasonRejected}, true) // which the carrier says of the attempt itself
	f.Pass(from.Add(time.Hour).Sub(f.Now))
	text(store.Outcome{Status: store.Sent}, store.Undelivered) // an hour later
	for _, c := range []struct {
		q    store.StatsQuery
		want int
	}{
		{store.StatsQuery{To: from.Add(time.Hour)}, 3}, {store.StatsQuery{To: from.Add(2 * time.Hour)}, 4},
		{store.StatsQuery{To: from.Add(time.Hour), App: "desk"}, 1}, {store.StatsQuery{To: from.Add(time.Hour), Channel: recipient.Email}, 0},
	} {
		c.q.From, c.q.Each = from, time.Hour
		got, err := f.Stats(t.Context(), c.q)
		OK(t, err)
		Equal(t, "lost", got.Undelivered, c.want)
	}
}
