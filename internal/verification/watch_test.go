package verification

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

// pumped is a German prefix whose numbers are asked for, one after the other.
func pumped(n int) string { return fmt.Sprintf("+49151%08d", 30_000_000+n) }

func watched(s *Settings) {
	toNumbers("DE", "US")(s)
	s.Watch = store.PrefixWatch{Sends: 20, Percent: 10, Within: time.Hour, Life: 10 * time.Minute, For: time.Hour}
}

// pump asks for codes that nobody enters.
func (r *rig) pump(from, n int) {
	r.Helper()
	for i := range n {
		r.send(textTo(pumped(from + i)))
	}
}

func (r *rig) status(a Answer) string {
	r.Helper()
	s := r.get(a.View.ID).Send
	return strings.TrimSuffix(string(s.Status)+" "+s.Reason, " ")
}

// Codes go to a prefix and none comes back: it is paused, people are alerted, nothing leaves, the place is given back. Others,
// and mail, go on. When the time is over, so does the prefix.
func TestPumpedPrefixIsPaused(t *testing.T) {
	inBubbleWith(t, watched, func(r *rig) {
		w := &watcher{}
		r.svc.Observer = w
		r.pump(0, 20)
		before := r.send(textTo(pumped(50))) // as the pause is not there yet
		if got := r.status(before); got != "sent" {
			r.Fatalf("%s", got)
		}
		waited(10*minute + 2*watchEvery)
		said := r.printed.String()
		if strings.Count(said, "are paused: codes go there") != 1 || !strings.Contains(said, "prefix=+49151") || !strings.Contains(said, "sends=21 approved=0") ||
			fmt.Sprint(w.told) != "[shop DE]" {
			r.Errorf("told %v, logged %s", w.told, said)
		}
		left := len(r.handset.all())
		a := r.send(textTo(pumped(60)))
		if got := r.status(a); got != "failed paused" || len(r.handset.all()) != left {
			r.Errorf("%s, %d left", got, len(r.handset.all())-left)
		}
		if d, err := r.svc.Quota(r.Context(), backEnd, "sms", pumped(60), ""); err != nil || !d.Quota.Allowed() || d.Quota.Rules[0].Used != 0 {
			r.Errorf("the place was not given back: %+v, %v", d.Quota, err)
		}
		if got := r.status(r.send(textTo("+4916012345678"))); got != "sent" {
			r.Errorf("another prefix: %s", got)
		}
		if got := r.status(r.send(askFor(ana))); got != "sent" {
			r.Errorf("a mail: %s", got)
		}
		other := textTo(pumped(61))
		other.App = "gym"
		if got := r.send(other); got.View.Send.Status == store.Failed {
			r.Errorf("another app: %+v", got.View.Send)
		}
		waited(time.Hour)
		if got := r.status(r.send(textTo(pumped(62)))); got != "sent" {
			r.Errorf("after the pause: %s", got)
		}
	})
}

// PrefixPaused makes watcher an observer of pauses.
func (w *watcher) PrefixPaused(app, country string) { w.told = append(w.told, app+" "+country) }

// Who enters some codes himself stays above the limit only by entering as many as it says.
func TestApprovedCodesKeepAPrefix(t *testing.T) {
	for approved, want := range map[int]string{2: "sent", 1: "failed paused"} {
		inBubbleWith(t, watched, func(r *rig) {
			for n := range 20 {
				a := r.send(textTo(pumped(n)))
				if n < approved {
					r.check(a.View.ID, r.handset.all()[n].Code)
				}
			}
			waited(10*minute + 2*watchEvery)
			if got := r.status(r.send(textTo(pumped(60)))); got != want {
				r.Errorf("%d of 20 entered: %s", approved, got)
			}
		})
	}
}

// A pause stops what waits for its next attempt as well.
func TestPauseStopsWhatWaits(t *testing.T) {
	inBubbleWith(t, watched, func(r *rig) {
		r.pump(0, 20)
		waited(8 * minute)
		r.handset.fails(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial, RetryAfter: 5 * minute})
		a := r.send(textTo(pumped(60)))
		r.handset.fails(nil)
		left := len(r.handset.all())
		waited(6 * minute)
		if got := r.status(a); got != "failed paused" || len(r.handset.all()) != left {
			r.Errorf("%s", got)
		}
	})
}

// While the log does not say whether there is a pause, nothing leaves; then it goes on.
func TestNothingLeavesWhileTheLogDoesNotSay(t *testing.T) {
	inBubbleWith(t, watched, func(r *rig) {
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "PrefixPaused" {
				return sqlite.Down
			}
			return sqlite.None
		})
		a := r.send(textTo(mobile))
		if got := r.status(a); got != "queued temporary_log" || len(r.handset.all()) != 0 {
			r.Errorf("%s", got)
		}
		r.log.SetFault(nil)
		waited(10 * time.Second)
		if got := r.status(a); got != "sent" {
			r.Errorf("%s", got)
		}
	})
}

func TestExemptPrefixesAndNoWatch(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"exempt": func(s *Settings) { s.Watch.Exempt = []string{"+49"} },
		"off":    func(s *Settings) { s.Watch = store.PrefixWatch{} },
	} {
		inBubbleWith(t, func(s *Settings) { watched(s); change(s) }, func(r *rig) {
			r.pump(0, 20)
			waited(15 * minute)
			if got := r.status(r.send(textTo(pumped(60)))); got != "sent" {
				r.Errorf("%s: %s", name, got)
			}
			if got, _, _ := r.log.PrefixPauses(r.Context(), store.PrefixPauseFilter{Limit: 9}); len(got) != 0 {
				r.Errorf("%s: %+v", name, got)
			}
		})
	}
	// What is exempted during a pause goes out at once.
	inBubbleWith(t, watched, func(r *rig) {
		r.pump(0, 20)
		waited(12 * minute)
		r.svc.Watch.Exempt = []string{"+49151"}
		if got := r.status(r.send(textTo(pumped(60)))); got != "sent" {
			r.Errorf("%s", got)
		}
	})
}

func TestLiftPrefix(t *testing.T) {
	inBubbleWith(t, watched, func(r *rig) {
		r.pump(0, 20)
		waited(12 * minute)
		list, _, err := r.log.PrefixPauses(r.Context(), store.PrefixPauseFilter{Active: true, Limit: 9})
		if err != nil || len(list) != 1 {
			r.Fatalf("%v, %v", list, err)
		}
		act := store.AuditEntry{ID: uuid.UUID{1, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: "prefix.lift", Outcome: store.AuditDone}
		for reason, why := range map[string]string{"": "required", "asked by ana@example.com": "names_recipient"} {
			var bad *InvalidError
			_, _, err := r.svc.LiftPrefix(r.Context(), store.PrefixLifting{ID: list[0].ID, Why: reason}, act)
			if !errors.As(err, &bad) || bad.Reason != why {
				r.Errorf("%q: %v", reason, err)
			}
		}
		if _, _, err := r.svc.LiftPrefix(r.Context(), store.PrefixLifting{ID: uuid.UUID{5}, Why: "x"}, act); !errors.Is(err, ErrNotFound) {
			r.Errorf("%v", err)
		}
		p, done, err := r.svc.LiftPrefix(r.Context(), store.PrefixLifting{ID: list[0].ID, By: "mei", Why: "ours, ticket 7"}, act)
		if err != nil || !done || p.LiftedWhy != "ours, ticket 7" {
			r.Errorf("%+v, %v, %v", p, done, err)
		}
		acts, err := r.log.AuditEntries(r.Context(), store.AuditFilter{Limit: 9})
		if err != nil || len(acts) != 1 || acts[0].Reason != "ours, ticket 7" || acts[0].Target != "+49151" {
			r.Errorf("%+v, %v", acts, err)
		}
		if got := r.status(r.send(textTo(pumped(60)))); got != "sent" {
			r.Errorf("%s", got)
		}
		waited(30 * minute)
		if got := r.status(r.send(textTo(pumped(61)))); got != "sent" {
			r.Errorf("armed again on the same sends: %s", got)
		}
	})
}

// Two replicas look in turns, and alert once.
func TestReplicasWatchInTurns(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, watched)
		r.run()
		other := &rig{T: t, log: r.log, limiter: r.limiter, post: r.post, handset: r.handset, printed: r.printed, settings: r.settings, renderer: r.renderer}
		other.svc = other.replica(r.post)
		other.run()
		r.pump(0, 20)
		waited(15 * minute)
		if n := strings.Count(r.printed.String(), "are paused: codes go there"); n != 1 {
			t.Errorf("alerted %d times", n)
		}
		r.quit()
		other.quit()
	})
}

func TestInsteadOfATextMessage(t *testing.T) {
	for _, c := range []struct {
		ch     recipient.Channel
		status store.Status
		want   recipient.Channel
	}{
		{recipient.SMS, store.Failed, recipient.Email}, {recipient.SMS, store.Undelivered, recipient.Email}, {recipient.SMS, store.Sent, ""},
		{recipient.SMS, store.Unknown, ""}, {recipient.SMS, store.Queued, ""}, {recipient.Email, store.Failed, ""},
	} {
		if got := Instead(c.ch, c.status); got != c.want {
			t.Errorf("%s %s: %q", c.ch, c.status, got)
		}
	}
}
