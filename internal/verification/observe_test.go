package verification

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// trial adds a stricter rule for recipients, with the longest window of all, and one for addresses; both observe.
func trial(s *Settings) {
	for name, p := range s.Purposes {
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules[:1]),
			quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 2, Window: 48 * time.Hour, Observe: true},
			quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: time.Hour, Observe: true})
		s.Purposes[name] = p
	}
}

// watcher is an observer that remembers what would have been refused.
type watcher struct {
	nobody
	told []string
}

func (w *watcher) Observed(ch recipient.Channel, app, rule string) {
	w.told = append(w.told, fmt.Sprint(ch, " ", app, " ", rule))
}

func TestObservingRulesRefuseNobodyAndAreInTheLog(t *testing.T) {
	inBubbleWith(t, trial, func(r *rig) {
		w := &watcher{}
		r.svc.Observer = w
		for range 4 {
			a := r.send(askFor(ana))
			if len(a.Quota.Rules) != 1 || a.Quota.RetryAfter() != minute {
				t.Fatalf("a success: %+v", a.Quota)
			}
			if refused := r.refuse(askFor(ana)); len(refused.Quota.Rules) != 1 || fmt.Sprint(refused.Quota.Violated()) != "[minute]" {
				t.Fatalf("a refusal: %+v", refused.Quota)
			}
			waited(minute)
		}
		look, err := r.svc.Quota(r.Context(), backEnd, "email", ana, "")
		if err != nil || !look.Quota.Allowed() || len(look.Quota.Rules) != 1 {
			t.Errorf("a look: %v %+v", err, look.Quota)
		}
		r.sendsObserved(nil, nil, []string{"stricter"}, []string{"stricter", "office"})
		if want := "[email shop stricter email shop stricter email shop office]"; fmt.Sprint(w.told) != want {
			t.Errorf("metrics: %v", w.told)
		}
	})
}

// sendsObserved is hasObserved over sends alone; a refusal has nothing to observe.
func (r *rig) sendsObserved(want ...[]string) {
	r.Helper()
	var got [][]string
	for _, row := range r.rows() {
		if row.Status != store.Refused {
			got = append(got, row.Observed)
		} else if row.Observed != nil {
			r.Errorf("a refusal observed %v", row.Observed)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("observed %v, want %v", got, want)
	}
}

// rows is the whole log, the oldest first.
func (r *rig) rows() []store.Send {
	r.Helper()
	rows, err := r.log.Sends(r.Context(), store.Filter{Limit: 100})
	if err != nil {
		r.Fatal(err)
	}
	slices.Reverse(rows)
	return rows
}

// The log holds three sends of a rule that observes two; a limiter that forgot all asks it, and is let in.
func TestTheLogDoesNotDecideWhatObserves(t *testing.T) {
	inBubbleWith(t, trial, func(r *rig) {
		for range 3 {
			r.send(askFor(ana))
			waited(minute)
		}
		r.find()
		r.send(askFor(ana))
		r.find()
		if a := r.refuse(askFor(ana)); fmt.Sprint(a.Quota.Violated()) != "[minute]" || a.Quota.RetryAfter() != minute {
			t.Errorf("refused by the log: %+v", a.Quota)
		}
	})
}

func TestAloneObservingRulesAreDecidedInProcess(t *testing.T) {
	inBubbleWith(t, trial, func(r *rig) {
		r.lose()
		r.post.tell(failing(1, "rcpt", 550, "5.1.1"))
		r.send(askFor(ana)) // given back by the recipient, not by the address
		for range 3 {
			a := r.send(askFor(ana))
			if len(a.Quota.Rules) != 1 {
				t.Errorf("%+v", a.Quota.Rules)
			}
			waited(minute)
		}
		r.sendsObserved(nil, nil, nil, []string{"stricter", "office"})
	})
}

// A limiter that starts with the process counts for an observing rule what the log has for as long as that rule looks back.
func TestRebuildForObservingRules(t *testing.T) {
	inBubbleWith(t, seldom(trial), func(r *rig) {
		r.send(askFor(ana))
		waited(minute)
		r.send(askFor(ana))
		waited(47 * time.Hour)
		r.find()
		if err := r.svc.Rebuild(r.Context(), "process"); err != nil {
			t.Fatal(err)
		}
		r.send(askFor(ana))
		waited(time.Hour)
		r.send(askFor(ana))
		r.sendsObserved(nil, nil, []string{"stricter"}, nil)
	})
}
