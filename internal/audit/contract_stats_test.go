package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
)

func statistics(t *testing.T, f *fixture) {
	hour := f.now.Truncate(time.Hour).Add(time.Hour)
	f.pass(hour.Sub(f.now))
	begin := f.now
	end := func(n int, took time.Duration, o Outcome, changes ...func(*Intent)) Begun {
		begun := f.admit(t, f.intent(n, changes...))
		f.pass(took)
		o.Held = Held{begun.Send.ID, 1}
		f.finish(t, o, true)
		return begun
	}
	first := end(1, time.Second, Outcome{Status: Sent})
	again := f.intent(1)
	again.Join = first.Verification.ID
	f.finish(t, Outcome{Held: Held{f.admit(t, again).Send.ID, 1}, Status: Sent}, true) // at once, and of the same code
	end(2, 3*time.Second, Outcome{Status: Sent}, func(in *Intent) { in.Send.App = "desk" })
	end(3, 2*time.Second, Outcome{Status: Failed, Reason: ReasonRejected, Refund: true})
	_, err := f.Approve(t.Context(), first.Verification.ID, Tell{})
	ok(t, err)
	for range 2 {
		r := f.refusal(1, func(s *Send) { s.Count = 3 })
		ok(t, f.Refused(t.Context(), []Send{r}))
	}
	f.pass(begin.Add(time.Hour).Sub(f.now)) // the next stretch begins
	end(4, 4*time.Second, Outcome{Status: Unknown, Reason: "no_answer"}, func(in *Intent) { in.Send.Channel = recipient.SMS })
	f.admit(t, f.intent(5)) // under way
	f.pass(begin.Add(2 * time.Hour).Sub(f.now))
	end(6, time.Second, Outcome{Status: Sent}) // after the time that is asked for

	ask := func(q StatsQuery, want Stats) {
		t.Helper()
		q.From, q.To, q.Each = begin, begin.Add(2*time.Hour), time.Hour
		got, err := f.Stats(t.Context(), q)
		ok(t, err)
		equal(t, "statistics", got, want)
	}
	next := begin.Add(time.Hour)
	ask(StatsQuery{}, Stats{
		Tallies: []Tally{
			{At: begin, Status: Failed, Reason: ReasonRejected, Rows: 1, Requests: 1}, {At: begin, Status: Refused, BlockedBy: "minute", Rows: 2, Requests: 6},
			{At: begin, Status: Sent, Rows: 3, Requests: 3},
			{At: next, Status: Sending, Rows: 1, Requests: 1}, {At: next, Status: Unknown, Reason: "no_answer", Rows: 1, Requests: 1},
		},
		Stretches: []Stretch{{begin, Measures{3, 1, time.Second, 3 * time.Second}}, {next, Measures{Opened: 2}}},
		Measures:  Measures{5, 1, time.Second, 3 * time.Second},
	})
	desk, texts := Measures{1, 0, 3 * time.Second, 3 * time.Second}, Measures{Opened: 1}
	ask(StatsQuery{App: "desk"}, Stats{Tallies: []Tally{{At: begin, Status: Sent, Rows: 1, Requests: 1}}, Stretches: []Stretch{{begin, desk}}, Measures: desk})
	ask(StatsQuery{Channel: recipient.SMS}, Stats{
		Tallies: []Tally{{At: next, Status: Unknown, Reason: "no_answer", Rows: 1, Requests: 1}}, Stretches: []Stretch{{next, texts}}, Measures: texts,
	})
	ask(StatsQuery{Purpose: "nothing"}, Stats{})
	f.finish(t, Outcome{Held: Held{f.admit(t, f.intent(7, func(in *Intent) { in.Send.To = "b•••@example.org" })).Send.ID, 1}, Status: Failed, Reason: "expired"}, true)
	f.finish(t, Outcome{Held: Held{f.admit(t, f.intent(8, func(in *Intent) { in.Send.To = "+49 151•••021" })).Send.ID, 1}, Status: Failed, Reason: "expired"}, true)
	for _, c := range []struct {
		q    StatsQuery
		want []DomainTally
	}{
		{StatsQuery{To: begin.Add(2 * time.Hour)}, []DomainTally{{"example.com", 6, 1, 1}}},
		{StatsQuery{To: begin.Add(3 * time.Hour)}, []DomainTally{{"example.com", 7, 1, 1}, {"example.org", 1, 1, 0}}},
		{StatsQuery{To: begin.Add(3 * time.Hour), App: "desk"}, nil},
	} {
		c.q.From, c.q.Each = begin, time.Hour
		got, err := f.Domains(t.Context(), c.q)
		ok(t, err)
		equal(t, "domains", got, c.want)
	}
	for _, q := range []StatsQuery{
		{}, {From: begin, To: begin, Each: time.Hour}, {From: begin, To: next}, {From: begin, To: next, Each: time.Millisecond},
		{From: begin, To: next, Each: time.Hour, App: "a\x00"},
	} {
		_, err := f.Stats(t.Context(), q)
		is(t, err, ErrBadRequest)
		_, err = f.Domains(t.Context(), q)
		is(t, err, ErrBadRequest)
	}
}

// Text messages that a carrier took, or may have, and says were lost are counted beside what was sent.
func lostTexts(t *testing.T, f *fixture) {
	from := f.now.Truncate(time.Hour)
	text := func(o Outcome, said Status, changes ...func(*Intent)) {
		t.Helper()
		begun := f.admit(t, f.intent(1, append(changes, func(in *Intent) { in.Send.Channel = recipient.SMS })...))
		o.Held = Held{begun.Send.ID, 1}
		f.finish(t, o, true)
		if said != "" {
			changed, err := f.Receive(t.Context(), begun.Send.ID, said)
			ok(t, err)
			equal(t, "received", changed, true)
		}
	}
	desk := func(in *Intent) { in.Send.App = "desk" }
	text(Outcome{Status: Sent}, Undelivered)
	text(Outcome{Status: Sent}, Undelivered, desk)
	text(Outcome{Status: Sent}, Delivered)
	text(Outcome{Status: Sent}, "")
	text(Outcome{Status: Unknown, Reason: "no_answer"}, Undelivered)
	late := f.admit(t, f.intent(1, func(in *Intent) { in.Send.Channel = recipient.SMS }))
	_, err := f.Receive(t.Context(), late.Send.ID, Undelivered)
	ok(t, err)
	f.finish(t, Outcome{Held: Held{late.Send.ID, 1}, Status: Failed, Reason: ReasonRejected}, true) // which the carrier says of the attempt itself
	f.pass(from.Add(time.Hour).Sub(f.now))
	text(Outcome{Status: Sent}, Undelivered) // an hour later
	for _, c := range []struct {
		q    StatsQuery
		want int
	}{
		{StatsQuery{To: from.Add(time.Hour)}, 3}, {StatsQuery{To: from.Add(2 * time.Hour)}, 4},
		{StatsQuery{To: from.Add(time.Hour), App: "desk"}, 1}, {StatsQuery{To: from.Add(time.Hour), Channel: recipient.Email}, 0},
	} {
		c.q.From, c.q.Each = from, time.Hour
		got, err := f.Stats(t.Context(), c.q)
		ok(t, err)
		equal(t, "lost", got.Undelivered, c.want)
	}
}
