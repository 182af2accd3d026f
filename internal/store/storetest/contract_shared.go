package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// sharedRefusal is a row of refusals of several recipients.
func (f *Fixture) sharedRefusal(recipients, count int) store.Send {
	return f.Refusal(1, func(s *store.Send) {
		s.Recipient, s.To, s.Reference, s.Locale, s.BlockedBy = store.Nobody, "", "", "", "office"
		s.Recipients, s.Count = recipients, count
	})
}

func refusalsShareARow(t *testing.T, f *Fixture) {
	several := f.sharedRefusal(3, 10)
	more := several
	more.Count, more.Recipients = 5, 7
	OK(t, f.Refused(t.Context(), []store.Send{several, more}))
	f.Pass(time.Second)
	more.Count, more.Recipients, more.RetryAfter = 2, 4, 20*time.Second // an estimate never falls
	OK(t, f.Refused(t.Context(), []store.Send{more, f.Refusal(2, nil)}))
	row := f.Row(t, several.ID)
	Equal(t, "row", []any{row.Count, row.Recipients, row.RetryAfter, row.Recipient, row.To}, []any{17, 7, 20 * time.Second, store.Nobody, ""})

	own := recipient.Hash{15: 2}
	rows := Must(f.Sends(t.Context(), store.Filter{Recipient: &own, Limit: 10}))(t)
	Equal(t, "rows of a recipient of its own", len(rows), 1)
	Equal(t, "recipients of a row of one", rows[0].Recipients, 0)
	Equal(t, "latest", len(Must(f.Latest(t.Context(), []recipient.Hash{own, {15: 1}}, time.Hour))(t)), 1)
	stats := Must(f.Stats(t.Context(), store.StatsQuery{From: f.Now.Add(-time.Hour), To: f.Now.Add(time.Hour), Each: time.Hour}))(t)
	requests := 0
	for _, tally := range stats.Tallies {
		requests += tally.Requests
	}
	Equal(t, "requests counted", requests, 18)
	story := Must(f.Story(t.Context(), several.ID))(t)
	Equal(t, "story", story.Send.Recipients, 7)
	Equal(t, "related", len(story.Related), 0)

	OK(t, f.Erase(t.Context(), own, time.Microsecond, f.Act()))
	Equal(t, "after an erasure", f.Row(t, several.ID), row)
}
