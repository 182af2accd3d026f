package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/app/apptest"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// holds says what a run left behind, once all sends have ended: never over policy, nothing accepted lost, nothing given
// back that went out.
func holds(s *apptest.Stack, l *load, lead time.Duration) {
	s.Helper()
	h := ended(s, s.Replicas[0].Log())
	rules := quota.OfScope(s.Config().Policies["default"].Rules, quota.Recipient)
	for _, breach := range overPolicy(h, rules, lead) {
		s.Error(breach)
	}
	for _, fault := range lostOrDoubled(h, l.sends, s.Mails(), int(l.unavailable.Load())) {
		s.Error(fault)
	}
}

// ended waits until no send is in flight and no place is owed, and gives what is in the log then.
func ended(s *apptest.Stack, log apptest.Sends) (h apptest.History) {
	s.Helper()
	s.Await("every send and refund to end", func() bool {
		h = s.HistoryIn(log)
		return !slices.ContainsFunc(h, func(r store.Send) bool { return r.Status.InFlight() || r.RefundDue })
	})
	return h
}

// overPolicy lists the sends that had no place: by the instants of their Takes where one clock has both, as long as lead
// is 0; else by the log's, on which a limiter's clock may be ahead by the lead.
func overPolicy(h apptest.History, rules []quota.Rule, lead time.Duration) (breaches []string) {
	of := map[recipient.Hash]apptest.History{}
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
func lostOrDoubled(h apptest.History, accepted map[uuid.UUID]bool, mails []apptest.Letter, unavailable int) (faults []string) {
	got := map[string]int{}
	for _, m := range mails {
		got[m.ID]++
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
		faults = append(faults, "the log has sends that no caller was told of")
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
		rows apptest.History
		lead time.Duration
		want int
	}{
		"exact":                  {apptest.History{row("redis", 0, 0), row("redis", 2*time.Second, 2*time.Second-µs)}, 0, 0},
		"1 µs early":             {apptest.History{row("redis", 0, 0), row("redis", 2*time.Second-µs, 3*time.Second)}, 0, 1},
		"on the log's clock":     {apptest.History{row("redis", 0, 0), row("log", 9*time.Second, 2*time.Second-µs)}, 0, 1},
		"a clock that ran ahead": {apptest.History{row("redis", 0, 0), row("redis", 5*time.Second, time.Second-µs)}, time.Second, 1},
		"ahead by the lead":      {apptest.History{row("redis", 0, 0), row("redis", 5*time.Second, time.Second)}, time.Second, 0},
		"the longer rule":        {apptest.History{row("log", 0, 0), row("log", 0, 2*time.Second), row("log", 0, 6*time.Second-µs)}, 0, 1},
	} {
		if got := overPolicy(c.rows, rules, c.lead); len(got) != c.want {
			t.Errorf("%s: %v, want %d breaches", name, got, c.want)
		}
	}
	sent, failed, lost, doubled, secret := row("log", 0, 0), row("log", 0, 0), row("log", 0, 0), row("log", 0, 0), row("log", 0, 0)
	failed.Status, failed.Counts = store.Failed, false
	mail := func(rows ...store.Send) (list []apptest.Letter) {
		for _, r := range rows {
			list = append(list, apptest.Letter{ID: r.ID.String() + "@localhost"})
		}
		return list
	}
	ok := apptest.History{sent, failed}
	for name, c := range map[string]struct {
		rows     apptest.History
		accepted []store.Send
		mails    []apptest.Letter
		want     int
	}{
		"all is well":         {ok, ok, mail(sent), 0},
		"no mail":             {apptest.History{sent, failed, lost}, apptest.History{sent, failed, lost}, mail(sent), 1},
		"two mails":           {apptest.History{sent, doubled}, apptest.History{sent, doubled}, mail(sent, doubled, doubled), 1},
		"no row":              {ok, apptest.History{sent, failed, lost}, mail(sent), 1},
		"no one was told":     {apptest.History{sent, secret}, apptest.History{sent}, mail(sent, secret), 1},
		"a refund for a mail": {ok, ok, mail(sent, failed), 1},
	} {
		accepted := map[uuid.UUID]bool{}
		for _, r := range c.accepted {
			accepted[r.ID] = true
		}
		if got := lostOrDoubled(c.rows, accepted, c.mails, 0); len(got) != c.want {
			t.Errorf("%s: %v, want %d faults", name, got, c.want)
		}
	}
}
