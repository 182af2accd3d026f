package faults

import (
	"slices"
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
