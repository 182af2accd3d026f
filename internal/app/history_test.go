package app

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// history is the log as it is read after a run: every send, the oldest first.
type history []store.Send

func (s *stack) history() history { return s.historyIn(s.replicas[0].Log()) }

type sends interface {
	Sends(context.Context, store.Filter) ([]store.Send, error)
}

func (s *stack) historyIn(log sends) history {
	s.Helper()
	var all history
	filter := store.Filter{Limit: 200}
	for {
		page, err := log.Sends(s.Context(), filter)
		if err != nil {
			s.Fatal(err)
		}
		for _, row := range page {
			if row.Status != store.Refused {
				all = append(all, row)
			}
		}
		if len(page) < filter.Limit {
			slices.Reverse(all)
			return all
		}
		last := page[len(page)-1]
		filter.Before = &store.Mark{At: last.LoggedAt, ID: last.ID}
	}
}

// holds says what a run left behind, once all sends have ended: never over policy, nothing accepted lost, nothing given
// back that went out.
func (s *stack) holds(l *load, lead time.Duration) {
	s.Helper()
	h := s.ended(s.replicas[0].Log())
	rules := quota.OfScope(s.config().Policies["default"].Rules, quota.Recipient)
	for _, breach := range h.overPolicy(rules, lead) {
		s.Error(breach)
	}
	for _, fault := range h.lostOrDoubled(l.sends, s.mails(), int(l.unavailable.Load())) {
		s.Error(fault)
	}
}

// ended waits until no send is in flight and no place is owed, and gives what is in the log then.
func (s *stack) ended(log sends) (h history) {
	s.Helper()
	s.await("every send and refund to end", func() bool {
		h = s.historyIn(log)
		return !slices.ContainsFunc(h, func(r store.Send) bool { return r.Status.InFlight() || r.RefundDue })
	})
	return h
}

// overPolicy lists the sends that had no place: by the instants of their Takes where one clock has both, as long as lead
// is 0; else by the log's, on which a limiter's clock may be ahead by the lead.
func (h history) overPolicy(rules []quota.Rule, lead time.Duration) (breaches []string) {
	of := map[recipient.Hash]history{}
	for _, row := range h {
		if row.Counts {
			of[row.Recipient] = append(of[row.Recipient], row)
		}
	}
	for _, sends := range of {
		for i, row := range sends {
			for _, rule := range rules {
				used := 0
				for _, earlier := range sends[:i] {
					age := row.LoggedAt.Sub(earlier.LoggedAt) + lead
					if lead == 0 && row.Clock == earlier.Clock && row.Clock != store.LogClock {
						age = row.TakenAt.Sub(earlier.TakenAt)
					}
					if age < rule.Window {
						used++
					}
				}
				if used >= rule.Limit {
					breaches = append(breaches, "send "+row.ID.String()+" is over "+rule.Name)
				}
			}
		}
	}
	return breaches
}

// lostOrDoubled compares the log with what clients were told and mailboxes got. Who was told 503 may have a send.
func (h history) lostOrDoubled(accepted map[uuid.UUID]bool, mails []letter, unavailable int) (faults []string) {
	got := map[string]int{}
	for _, m := range mails {
		got[m.id]++
	}
	seen, extra := 0, 0
	for _, row := range h {
		if accepted[row.ID] {
			seen++
		} else {
			extra++
		}
		n := got[row.ID.String()+"@localhost"]
		switch {
		case row.Status == store.Sent && row.Counts && n == 1:
		case row.Status == store.Failed && !row.Counts && n == 0:
		default:
			faults = append(faults, "send "+row.ID.String()+" is "+string(row.Status)+": lost, doubled or given back wrongly")
		}
	}
	if seen != len(accepted) {
		faults = append(faults, "a send that was answered with 202 is not in the log")
	}
	if extra > unavailable {
		faults = append(faults, "the log has sends that nobody was told of")
	}
	return faults
}

// The checker finds what it is there for.
func TestTheCheckerFindsBreaches(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC)
	row := func(clock string, taken, logged time.Duration) store.Send {
		return store.Send{ID: uuid.New(), Status: store.Sent, Counts: true, Clock: clock, TakenAt: at.Add(taken), LoggedAt: at.Add(logged)}
	}
	rules := []quota.Rule{{Name: "short", Limit: 1, Window: 2 * time.Second}, {Name: "long", Limit: 2, Window: 6 * time.Second}}
	const µs = time.Microsecond
	for name, c := range map[string]struct {
		rows history
		lead time.Duration
		want int
	}{
		"exact":                  {history{row("redis", 0, 0), row("redis", 2*time.Second, 2*time.Second-µs)}, 0, 0},
		"1 µs early":             {history{row("redis", 0, 0), row("redis", 2*time.Second-µs, 3*time.Second)}, 0, 1},
		"on the log's clock":     {history{row("redis", 0, 0), row("log", 9*time.Second, 2*time.Second-µs)}, 0, 1},
		"a clock that ran ahead": {history{row("redis", 0, 0), row("redis", 5*time.Second, time.Second-µs)}, time.Second, 1},
		"ahead by the lead":      {history{row("redis", 0, 0), row("redis", 5*time.Second, time.Second)}, time.Second, 0},
		"the longer rule":        {history{row("log", 0, 0), row("log", 0, 2*time.Second), row("log", 0, 6*time.Second-µs)}, 0, 1},
	} {
		if got := c.rows.overPolicy(rules, c.lead); len(got) != c.want {
			t.Errorf("%s: %v, want %d breaches", name, got, c.want)
		}
	}
	sent, failed, lost, doubled, secret := row("log", 0, 0), row("log", 0, 0), row("log", 0, 0), row("log", 0, 0), row("log", 0, 0)
	failed.Status, failed.Counts = store.Failed, false
	mail := func(rows ...store.Send) (list []letter) {
		for _, r := range rows {
			list = append(list, letter{id: r.ID.String() + "@localhost"})
		}
		return list
	}
	ok := history{sent, failed}
	for name, c := range map[string]struct {
		rows     history
		accepted []store.Send
		mails    []letter
		want     int
	}{
		"all is well":         {ok, ok, mail(sent), 0},
		"no mail":             {history{sent, failed, lost}, history{sent, failed, lost}, mail(sent), 1},
		"two mails":           {history{sent, doubled}, history{sent, doubled}, mail(sent, doubled, doubled), 1},
		"no row":              {ok, history{sent, failed, lost}, mail(sent), 1},
		"nobody was told":     {history{sent, secret}, history{sent}, mail(sent, secret), 1},
		"a refund for a mail": {ok, ok, mail(sent, failed), 1},
	} {
		accepted := map[uuid.UUID]bool{}
		for _, r := range c.accepted {
			accepted[r.ID] = true
		}
		if got := c.rows.lostOrDoubled(accepted, c.mails, 0); len(got) != c.want {
			t.Errorf("%s: %v, want %d faults", name, got, c.want)
		}
	}
}
