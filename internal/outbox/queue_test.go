package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

func slowRig(t *testing.T, each time.Duration, workers int) (*vtest.Rig, *vtest.SlowMailServer) {
	post := &vtest.SlowMailServer{Each: each}
	r := vtest.NewRig(t, func(s *vtest.Settings) { s.Workers = workers })
	r.Svc = r.Replica(post)
	r.Svc.Queue.Capacity = memory
	return r, post
}

// memory is what tests give an outbox room for.
const memory = 200

// wantOneEach returns whom the mails were for, in their order, and fails the test unless each of n persons got one.
func wantOneEach(r *vtest.Rig, p *vtest.SlowMailServer, n int) []int {
	r.Helper()
	var order []int
	seen := map[int]bool{}
	for _, m := range p.All() {
		var who int
		if _, err := fmt.Sscanf(m.To, "person-%d@", &who); err != nil || seen[who] {
			r.Fatalf("an unexpected mail, or a second one: %v", err)
		}
		seen[who] = true
		order = append(order, who)
	}
	if len(order) != n {
		r.Errorf("%d mails for %d sends", len(order), n)
	}
	return order
}

// A receiver that takes a second for each mail changes no answer: all are told at once, and all mails go out, in the
// order of the requests, as fast as the workers are.
func TestSlowReceiverChangesNoAnswer(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r, post := slowRig(t, time.Second, 16)
		r.Start()
		began := time.Now()
		r.SendMany(0, 300)
		for len(post.All()) < 300 {
			r.Sleep(time.Second)
		}
		r.Sleep(2 * time.Second)
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("300 mails took %v", took)
		}
		for i, m := range post.All() {
			if n := 0; i >= 16 && m.To != "" {
				if _, err := fmt.Sscanf(m.To, "person-%d@", &n); err != nil || n < i-16 || n > i+16 {
					t.Errorf("mail %d was for person %d", i, n)
				}
			}
		}
		r.Quit()
		if n := len(post.All()); n != 300 {
			t.Errorf("%d mails for 300 sends", n)
		}
	})
}

// More than memory has room for waits in the log, queued. It is delivered in turn: what comes later does not go first,
// though there be room for it at that moment.
func TestWhatHasNoRoomWaitsInTheLog(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		const n, late, lates = memory + 300, 5, 4
		r, post := slowRig(t, 100*time.Millisecond, 10) // a hundred a second
		r.Start()
		ids := r.SendMany(0, n)
		r.Sleep(50 * time.Millisecond)
		if s := r.Get(ids[n-1]).Send; s.Status != store.Queued || s.Reason != "backlog" {
			t.Errorf("the last one: %+v", s)
		}
		for k := range lates {
			for range 8 { // until there is room, and some wait
				r.Sleep(100 * time.Millisecond)
				if held, _ := r.Svc.Queue.Held(recipient.Email); held > memory {
					t.Fatalf("%d held in memory", held)
				}
			}
			ids = append(ids, r.SendMany(n+late*k, late)...)
		}
		for i := 0; len(post.All()) < n+late*lates; i++ {
			r.Sleep(50 * time.Millisecond)
			if i > 200 {
				t.Fatalf("%d mails out", len(post.All()))
			}
		}
		r.Sleep(2 * time.Second)
		for i, who := range wantOneEach(r, post, n+late*lates) {
			if who >= n && i < n-20 { // those under way at once may change places
				t.Errorf("person %d, who came later, was served as number %d", who, i)
			}
		}
		for _, id := range ids {
			if s := r.Get(id).Send; s.Status != store.Sent {
				t.Errorf("%+v", s)
			}
		}
		if held, behind := r.Svc.Queue.Held(recipient.Email); held != 0 || behind {
			t.Errorf("in the end %d held, behind %v", held, behind)
		}
		r.Quit()
	})
}

// What waits in the log is fetched when there is room, not only at the next tick.
func TestWorkersNeverWaitForWhatWaitsInTheLog(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		const n = memory + 400
		r, post := slowRig(t, 20*time.Millisecond, 10) // five hundred a second
		r.Start()
		began := time.Now()
		r.SendMany(0, n)
		for len(post.All()) < n {
			r.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(began); took > 1600*time.Millisecond {
			t.Errorf("%d mails took %v, want 1.2 s", n, took)
		}
		r.Sleep(2 * time.Second)
		wantOneEach(r, post, n)
		r.Quit()
	})
}

// While the log takes no outcome, mails stop soon: what is sent and not recorded would be doubled by a crash.
func TestMailsStopWhileTheLogTakesNoOutcome(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r, post := slowRig(t, 100*time.Millisecond, 100)
		r.Svc.Queue.Capacity = outbox.MaxFlights
		r.Start()
		r.SendMany(0, 1900)
		r.Sleep(time.Millisecond)
		r.Store.Cut(true)
		r.Sleep(7 * time.Second) // less than a lease
		stopped := len(post.All())
		r.Store.Cut(false)
		if stopped > outbox.MaxOutcomes+300 { // and those under way at either end
			t.Errorf("%d mails went out that no crash may come after", stopped)
		}
		for len(post.All()) < 1900 {
			r.Sleep(time.Second)
		}
		r.Sleep(time.Second)
		wantOneEach(r, post, 1900)
		r.Quit()
	})
}

// A stop does not wait for what has not begun: it is handed back, and the next process delivers it at once.
func TestStopHandsBackTheQueue(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r, post := slowRig(t, time.Second, 16)
		r.Start()
		r.SendMany(0, 500)
		r.Sleep(100 * time.Millisecond)
		began := time.Now()
		r.Quit()
		if took := time.Since(began); took > outbox.StopWait+time.Second {
			t.Errorf("the stop took %v", took)
		}
		first := len(post.All())
		r.Svc = r.Replica(r.MailServer)
		r.Start()
		r.Sleep(10 * time.Second)
		seen := map[string]int{}
		for _, m := range append(post.All(), r.MailServer.All()...) {
			seen[m.ID]++
		}
		if len(seen) != 500 {
			t.Errorf("%d of 500 sends went out, %d of them before the stop", len(seen), first)
		}
		r.Quit()
	})
}
