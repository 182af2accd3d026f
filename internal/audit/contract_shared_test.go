package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
)

// shared is a row of refusals of several recipients.
func (f *fixture) shared(recipients, count int) Send {
	return f.refusal(1, func(s *Send) {
		s.Recipient, s.To, s.Reference, s.Locale, s.BlockedBy = nobody, "", "", "", "office"
		s.Recipients, s.Count = recipients, count
	})
}

func refusalsShareARow(t *testing.T, f *fixture) {
	several := f.shared(3, 10)
	more := several
	more.Count, more.Recipients = 5, 7
	ok(t, f.Refused(t.Context(), []Send{several, more}))
	f.pass(time.Second)
	more.Count, more.Recipients, more.RetryAfter = 2, 4, 20*time.Second // an estimate never falls
	ok(t, f.Refused(t.Context(), []Send{more, f.refusal(2, nil)}))
	row := f.row(t, several.ID)
	equal(t, "count", row.Count, 17)
	equal(t, "recipients", row.Recipients, 7)
	equal(t, "wait", row.RetryAfter, 20*time.Second)
	equal(t, "recipient", row.Recipient, nobody)
	equal(t, "masked", row.To, "")

	own := recipient.Hash{15: 2}
	rows, err := f.Sends(t.Context(), Filter{Recipient: &own, Limit: 10})
	ok(t, err)
	equal(t, "rows of a recipient of its own", len(rows), 1)
	equal(t, "recipients of a row of one", rows[0].Recipients, 0)
	latest, err := f.Latest(t.Context(), []recipient.Hash{own, {15: 1}}, time.Hour)
	ok(t, err)
	equal(t, "latest", len(latest), 1)
	stats, err := f.Stats(t.Context(), StatsQuery{From: f.now.Add(-time.Hour), To: f.now.Add(time.Hour), Each: time.Hour})
	ok(t, err)
	requests := 0
	for _, tally := range stats.Tallies {
		requests += tally.Requests
	}
	equal(t, "requests counted", requests, 18)
	story, err := f.Story(t.Context(), several.ID)
	ok(t, err)
	equal(t, "story", story.Send.Recipients, 7)
	equal(t, "related", len(story.Related), 0)

	ok(t, f.Erase(t.Context(), own, time.Microsecond, f.act()))
	equal(t, "after an erasure", f.row(t, several.ID), row)
}

func sharedRowsNameNobody(t *testing.T, f *fixture) {
	for _, bad := range []func(*Send){
		func(s *Send) { s.Recipient = recipient.Hash{1} }, func(s *Send) { s.To = "a•••@example.com" }, func(s *Send) { s.Recipients = -1 },
	} {
		row := f.shared(3, 3)
		bad(&row)
		is(t, f.Refused(t.Context(), []Send{row}), ErrBadRequest)
	}
}
