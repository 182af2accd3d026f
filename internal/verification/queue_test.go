package verification

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/delivery"
)

// slowPost is a mail server that takes a while for each mail.
type slowPost struct {
	postbox
	each time.Duration
}

func (p *slowPost) Send(ctx context.Context, m delivery.Message) (delivery.Receipt, error) {
	r, err := p.postbox.Send(ctx, m)
	timer := time.NewTimer(p.each)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r, err
	case <-ctx.Done():
		return r, &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Err: ctx.Err()}
	}
}

func nth(n int) string { return fmt.Sprintf("person-%d@example.com", n) }

// crowd asks for n codes at once; every answer comes before a mail is through, and says queued or sending.
func (r *rig) crowd(first, n int) []string {
	r.Helper()
	began := time.Now()
	ids := make([]string, n)
	for i := range ids {
		a, err := r.svc.Send(r.Context(), askFor(nth(first+i)))
		if err != nil || !a.Admitted {
			r.Fatalf("%d: %v", i, err)
		}
		if s := a.View.Send.Status; s != audit.Sending && s != audit.Queued {
			r.Fatalf("%d: %s", i, s)
		}
		ids[i] = a.View.ID
	}
	if took := time.Since(began); took != 0 {
		r.Errorf("the answers took %v", took)
	}
	return ids
}

func slowRig(t *testing.T, each time.Duration, workers int) (*rig, *slowPost) {
	post := &slowPost{each: each}
	r := newRig(t, func(s *Settings) { s.Workers = workers })
	r.svc = r.replica(post)
	return r, post
}

// A receiver that takes a second for each mail changes no answer: all are told at once, and all mails go out, in the
// order of the requests, as fast as the workers are.
func TestSlowReceiverChangesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, post := slowRig(t, time.Second, 16)
		r.run()
		began := time.Now()
		r.crowd(0, 300)
		for len(post.all()) < 300 {
			waited(time.Second)
		}
		waited(2 * time.Second)
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("300 mails took %v", took)
		}
		for i, m := range post.all() {
			if n := 0; i >= 16 && m.To != "" {
				if _, err := fmt.Sscanf(m.To, "person-%d@", &n); err != nil || n < i-16 || n > i+16 {
					t.Errorf("mail %d was for person %d", i, n)
				}
			}
		}
		r.quit()
		if n := len(post.all()); n != 300 {
			t.Errorf("%d mails for 300 sends", n)
		}
	})
}

// More than memory has room for waits in the log, queued; it is delivered in turn, and what comes
// later does not go first.
func TestWhatHasNoRoomWaitsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = maxFlights + 1500
		r, post := slowRig(t, 100*time.Millisecond, 100)
		r.run()
		ids := r.crowd(0, n)
		waited(50 * time.Millisecond)
		r.svc.outbox.mu.Lock()
		held, behind := len(r.svc.outbox.flights), r.svc.outbox.behind
		r.svc.outbox.mu.Unlock()
		if held > maxFlights || !behind {
			t.Errorf("%d held in memory, behind %v", held, behind)
		}
		late := r.get(ids[n-1]).Send
		if late.Status != audit.Queued || late.Reason != "backlog" {
			t.Errorf("the last one: %+v", late)
		}
		r.crowd(n, 100) // while some wait in the log
		began := time.Now()
		for len(post.all()) < n+100 {
			waited(100 * time.Millisecond)
			if time.Since(began) > time.Minute {
				t.Fatalf("%d of %d mails in a minute", len(post.all()), n+100)
			}
		}
		waited(time.Second)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d mails took %v, want about 3.6 s", n+100, took)
		}
		seen := map[string]bool{}
		for i, m := range post.all() {
			if seen[m.ID] {
				t.Fatalf("a mail was doubled")
			}
			seen[m.ID] = true
			var who int
			if _, err := fmt.Sscanf(m.To, "person-%d@", &who); err == nil && who >= n && i < maxFlights {
				t.Errorf("person %d, who came last, was served as number %d", who, i)
			}
		}
		for _, id := range []string{ids[0], ids[maxFlights], ids[n-1]} {
			if s := r.get(id).Send; s.Status != audit.Sent {
				t.Errorf("%+v", s)
			}
		}
		r.quit()
	})
}

// While the log takes no outcome, mails stop soon: what is sent and not recorded would be doubled by a crash.
func TestMailsStopWhileTheLogTakesNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, post := slowRig(t, time.Second, 16)
		r.run()
		r.crowd(0, 1000)
		waited(time.Millisecond)
		r.log.set(true)
		waited(7 * time.Second) // less than a lease
		stopped := len(post.all())
		r.log.set(false)
		if stopped > 16*8 {
			t.Errorf("%d mails", stopped)
		}
		for len(post.all()) < 1000 {
			waited(time.Second)
		}
		waited(time.Second)
		if n := len(post.all()); n != 1000 {
			t.Errorf("%d mails for 1000 sends", n)
		}
		r.quit()
	})
}

// A stop does not wait for what nobody has begun with: it is handed back, and the next process delivers it at once.
func TestStopHandsBackTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, post := slowRig(t, time.Second, 16)
		r.run()
		r.crowd(0, 500)
		waited(100 * time.Millisecond)
		began := time.Now()
		r.quit()
		if took := time.Since(began); took > stopWait+time.Second {
			t.Errorf("the stop took %v", took)
		}
		first := len(post.all())
		r.svc = r.replica(r.post)
		r.run()
		waited(10 * time.Second)
		seen := map[string]int{}
		for _, m := range append(post.all(), r.post.all()...) {
			seen[m.ID]++
		}
		if len(seen) != 500 {
			t.Errorf("%d of 500 sends went out, %d of them before the stop", len(seen), first)
		}
		r.quit()
	})
}
