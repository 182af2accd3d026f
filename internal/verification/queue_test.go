package verification

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
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
		if s := a.View.Send.Status; s != store.Sending && s != store.Queued {
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
	r.svc.outbox.capacity = memory
	return r, post
}

// memory is what tests give an outbox room for.
const memory = 200

// A receiver that takes a second for each mail changes no answer: all are told at once, and all mails go out, in the
// order of the requests, as fast as the workers are.
func TestSlowReceiverChangesNoAnswer(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
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

// standing is how many sends are held in memory, and whether some wait in the log for want of room.
func (r *rig) standing() (held int, behind bool) {
	r.svc.outbox.mu.Lock()
	defer r.svc.outbox.mu.Unlock()
	return len(r.svc.outbox.flights), r.svc.outbox.lanes[recipient.Email].behind
}

// persons are those whom mails were for, in the order of the mails; each of the first n has one.
func (r *rig) persons(p *slowPost, n int) []int {
	r.Helper()
	var order []int
	seen := map[int]bool{}
	for _, m := range p.all() {
		var who int
		if _, err := fmt.Sscanf(m.To, "person-%d@", &who); err != nil || seen[who] {
			r.Fatalf("a mail for nobody, or a second one: %v", err)
		}
		seen[who] = true
		order = append(order, who)
	}
	if len(order) != n {
		r.Errorf("%d mails for %d sends", len(order), n)
	}
	return order
}

// More than memory has room for waits in the log, queued. It is delivered in turn: what comes later does not go first,
// though there be room for it at that moment.
func TestWhatHasNoRoomWaitsInTheLog(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		const n, late, lates = memory + 300, 5, 4
		r, post := slowRig(t, 100*time.Millisecond, 10) // a hundred a second
		r.run()
		ids := r.crowd(0, n)
		waited(50 * time.Millisecond)
		if s := r.get(ids[n-1]).Send; s.Status != store.Queued || s.Reason != "backlog" {
			t.Errorf("the last one: %+v", s)
		}
		for k := range lates {
			for range 8 { // until there is room, and some wait
				waited(100 * time.Millisecond)
				if held, _ := r.standing(); held > memory {
					t.Fatalf("%d held in memory", held)
				}
			}
			ids = append(ids, r.crowd(n+late*k, late)...)
		}
		for i := 0; len(post.all()) < n+late*lates; i++ {
			waited(50 * time.Millisecond)
			if i > 200 {
				t.Fatalf("%d mails out", len(post.all()))
			}
		}
		waited(2 * time.Second)
		for i, who := range r.persons(post, n+late*lates) {
			if who >= n && i < n-20 { // those under way at once may change places
				t.Errorf("person %d, who came later, was served as number %d", who, i)
			}
		}
		for _, id := range ids {
			if s := r.get(id).Send; s.Status != store.Sent {
				t.Errorf("%+v", s)
			}
		}
		if held, behind := r.standing(); held != 0 || behind {
			t.Errorf("in the end %d held, behind %v", held, behind)
		}
		r.quit()
	})
}

// What waits in the log is fetched when there is room, not only at the next tick.
func TestWorkersNeverWaitForWhatWaitsInTheLog(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		const n = memory + 400
		r, post := slowRig(t, 20*time.Millisecond, 10) // five hundred a second
		r.run()
		began := time.Now()
		r.crowd(0, n)
		for len(post.all()) < n {
			waited(50 * time.Millisecond)
		}
		if took := time.Since(began); took > 1600*time.Millisecond {
			t.Errorf("%d mails took %v, want 1.2 s", n, took)
		}
		waited(2 * time.Second)
		r.persons(post, n)
		r.quit()
	})
}

// While the log takes no outcome, mails stop soon: what is sent and not recorded would be doubled by a crash.
func TestMailsStopWhileTheLogTakesNoOutcome(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r, post := slowRig(t, 100*time.Millisecond, 100)
		r.svc.outbox.capacity = maxFlights
		r.run()
		r.crowd(0, 1900)
		waited(time.Millisecond)
		r.log.set(true)
		waited(7 * time.Second) // less than a lease
		stopped := len(post.all())
		r.log.set(false)
		if stopped > maxEnds+300 { // and those under way at either end
			t.Errorf("%d mails went out that no crash may come after", stopped)
		}
		for len(post.all()) < 1900 {
			waited(time.Second)
		}
		waited(time.Second)
		r.persons(post, 1900)
		r.quit()
	})
}

// A stop does not wait for what nobody has begun with: it is handed back, and the next process delivers it at once.
func TestStopHandsBackTheQueue(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
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
