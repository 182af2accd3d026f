package outbox_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/recipient"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	vtest "sendcode/internal/verification/verificationtest"
)

// memory is how many sends the outbox of slowly has room for.
const memory = 200

// slowly runs a test of a service whose mail server takes a while for each mail.
func slowly(t *testing.T, each time.Duration, workers int, test func(*vtest.Rig, *vtest.SlowMailServer)) {
	t.Helper()
	vtest.InBubbleIdle(t, func(s *vtest.Settings) {
		s.Workers = workers
		login := s.Purposes["login"]
		login.TTL = 2 * time.Minute
		s.Purposes["login"] = login
	}, func(r *vtest.Rig) {
		server := &vtest.SlowMailServer{Each: each}
		r.Svc = r.Replica(server)
		r.Svc.Queue.Capacity = memory
		r.Start()
		test(r, server)
	})
}

// persons returns whom the mails were for, in their order, and fails the test unless each of n persons got one.
func persons(r *vtest.Rig, p *vtest.SlowMailServer, n int) (order []int) {
	r.Helper()
	for _, m := range p.Attempts() {
		var who int
		if _, err := fmt.Sscanf(m.To, "person-%d@", &who); err != nil || slices.Contains(order, who) {
			r.Fatalf("an unexpected mail, or a second one: %v", err)
		}
		order = append(order, who)
	}
	if len(order) != n {
		r.Errorf("%d mails for %d sends", len(order), n)
	}
	return order
}

// A receiver that takes a second for each mail changes no answer: all are given at once, and all mails go out, in the
// order of the requests, as fast as the workers are.
func TestSlowReceiverChangesNoAnswer(t *testing.T) {
	slowly(t, time.Second, 16, func(r *vtest.Rig, server *vtest.SlowMailServer) {
		r.SendMany(0, 300)
		r.Sleep(25 * time.Second)
		for i, who := range persons(r, server, 300) {
			if who < i-16 || who > i+16 {
				t.Errorf("mail %d was for person %d", i, who)
			}
		}
	})
}

// Sends that memory has no room for wait in the log, queued. They are delivered in turn: a later one does not go first,
// though there be room for it at that moment.
func TestWhatHasNoRoomWaitsInTheLog(t *testing.T) {
	slowly(t, 100*time.Millisecond, 10, func(r *vtest.Rig, server *vtest.SlowMailServer) { // a hundred a second
		const n, late, lates = memory + 300, 5, 4
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
		r.Sleep(10 * time.Second)
		for i, who := range persons(r, server, n+late*lates) {
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
	})
}

// Sends that wait in the log are fetched when there is room, not only at the next tick.
func TestWorkersNeverWaitForWhatWaitsInTheLog(t *testing.T) {
	slowly(t, 20*time.Millisecond, 10, func(r *vtest.Rig, server *vtest.SlowMailServer) { // five hundred a second
		r.SendMany(0, memory+400)
		r.Sleep(1600 * time.Millisecond) // 1.2 s would do
		persons(r, server, memory+400)
		r.Sleep(2 * time.Second)
		persons(r, server, memory+400)
	})
}

// While the log takes no outcome, mails stop soon: a mail that is sent and not recorded would be doubled by a crash.
func TestMailsStopWhileTheLogTakesNoOutcome(t *testing.T) {
	slowly(t, 100*time.Millisecond, 100, func(r *vtest.Rig, server *vtest.SlowMailServer) {
		r.Svc.Queue.Capacity = outbox.MaxFlights
		r.SendMany(0, 1900)
		r.Sleep(time.Millisecond)
		r.CutStore()
		r.Sleep(7 * time.Second)                                                 // less than a lease
		if stopped := len(server.Attempts()); stopped > outbox.MaxOutcomes+300 { // and those under way at either end
			t.Errorf("%d mails went out that no crash may come after", stopped)
		}
		r.MendStore()
		r.Sleep(10 * time.Second)
		persons(r, server, 1900)
	})
}

// A stop does not wait for sends that have not begun: they are handed back, and the next process delivers them at once.
func TestStopHandsBackTheQueue(t *testing.T) {
	slowly(t, time.Second, 16, func(r *vtest.Rig, server *vtest.SlowMailServer) {
		r.SendMany(0, 500)
		r.Sleep(100 * time.Millisecond)
		began := time.Now()
		r.Quit()
		if took := time.Since(began); took > outbox.StopWait+time.Second {
			t.Errorf("the stop took %v", took)
		}
		r.Svc = r.Replica(r.MailServer)
		r.Start()
		r.Sleep(10 * time.Second)
		seen := map[string]bool{}
		for _, m := range append(server.Attempts(), r.MailServer.Attempts()...) {
			seen[m.ID] = true
		}
		if len(seen) != 500 {
			t.Errorf("%d of 500 sends went out, %d of them before the stop", len(seen), len(server.Attempts()))
		}
	})
}

// The queue in memory is served in the order of expiry, and codes that expire together in the order of the requests.
func TestBacklogLeavesInTheOrderOfItsExpiry(t *testing.T) {
	slowly(t, time.Second, 1, func(r *vtest.Rig, server *vtest.SlowMailServer) {
		for n := range 12 {
			ask := vtest.AskFor(vtest.NthAddress(n))
			if n%3 == 2 {
				ask.Purpose = "login"
			}
			r.Send(ask)
			r.Sleep(time.Millisecond)
		}
		r.Sleep(20 * time.Second)
		if order, want := persons(r, server, 12), []int{0, 2, 5, 8, 11, 1, 3, 4, 6, 7, 9, 10}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}

// Memory has room for as many as it is said to have, and the next one waits in the log.
func TestRoomToTheLast(t *testing.T) {
	slowly(t, time.Minute, 1, func(r *vtest.Rig, _ *vtest.SlowMailServer) {
		ids := r.SendMany(0, memory+1)
		synctest.Wait()
		for n, want := range map[int]string{memory - 1: "", memory: "backlog"} {
			if s := r.Get(ids[n]).Send; s.Reason != want {
				t.Errorf("%d: %q, want %q", n, s.Reason, want)
			}
		}
	})
}

// While a send waits in the log, a new one waits there as well, also where there is room again: else the old one might never have its turn.
func TestNoneOvertakesWhatWaitsInTheLog(t *testing.T) {
	slowly(t, time.Minute, 1, func(r *vtest.Rig, _ *vtest.SlowMailServer) {
		r.Sleep(500 * time.Millisecond) // between two looks at the log
		r.SendMany(0, memory+1)
		r.Sleep(time.Minute + time.Millisecond) // one was delivered
		id := r.SendMany(memory+1, 1)[0]
		synctest.Wait()
		if s := r.Get(id).Send; s.Reason != "backlog" {
			t.Errorf("it is %s %q", s.Status, s.Reason)
		}
	})
}

// While the log takes no outcomes, a line a second says how many writes failed, however many sends wait.
func TestOneWarningASecondOfFailedWrites(t *testing.T) {
	slowly(t, time.Millisecond, 16, func(r *vtest.Rig, server *vtest.SlowMailServer) {
		r.FailStore(sqlite.Down, "Finish")
		r.SendMany(0, 100)
		r.Sleep(10 * time.Second)
		r.MendStore()
		r.Sleep(2 * time.Second)
		persons(r, server, 100)
		failed, lines := 0, 0
		for _, m := range regexp.MustCompile(`did not take outcomes; repeating" count=(\d+)`).FindAllStringSubmatch(r.Printed.String(), -1) {
			n, _ := strconv.Atoi(m[1])
			failed, lines = failed+n, lines+1
		}
		if lines < 9 || lines > 11 || failed < 1000 {
			t.Errorf("%d lines of %d failed writes", lines, failed)
		}
	})
}

// slowCarrier takes a while for each message, fails with an error or accepts, and notes how many requests it had at once.
type slowCarrier struct {
	vtest.Carrier
	each      time.Duration
	fail      error
	mu        sync.Mutex
	now, most int
}

func (c *slowCarrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	select {
	case <-time.After(c.each):
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	r, _ := c.Carrier.Send(ctx, m)
	return r, c.fail
}

// Every text message hangs, far more than there is room for; a mail goes out at once all the same, and so does one that
// had to wait in the log behind all of them.
func TestHangingCarrierHoldsUpNoMail(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		dead := &slowCarrier{each: 20 * time.Second, fail: &sms.Error{Class: delivery.Temporary, Stage: sms.StageDial}}
		r.Svc = r.ReplicaOn(r.Store, r.MailServer, dead)
		r.Svc.Queue.Capacity = memory
		r.Start()
		for n := range memory + 300 {
			r.NoError(vtest.Err(r.Svc.Send(r.Context(), vtest.TextTo(vtest.NthNumber(n)))))
		}
		synctest.Wait()
		for n := range 3 * outbox.DefaultWorkers {
			if a := r.SendTo(vtest.NthAddress(n)); r.Status(a) != "sent" {
				t.Fatalf("mail %d waits", n)
			}
		}
		r.MailServer.Answer(later)
		a := r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.WantStatus(a, "sent")
	})
}

// The reverse: mails hang, and a text message goes out at once, also one that waited in the log.
func TestHangingMailServerHoldsUpNoText(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Svc = r.Replica(&vtest.SlowMailServer{Each: time.Minute})
		r.Svc.Queue.Capacity = memory
		r.Start()
		r.SendMany(0, memory+300)
		synctest.Wait()
		for n := range 3 * outbox.DefaultWorkers {
			if a := r.Send(vtest.TextTo(vtest.NthNumber(n))); r.Status(a) != "sent" {
				t.Fatalf("text message %d waits", n)
			}
		}
		r.Carrier.Fail(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		r.Sleep(10 * time.Second)
		r.WantStatus(a, "sent")
	})
}

// Each channel has so many workers and no more.
func TestWorkersOfAChannelAreBounded(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) { vtest.ServeCountries("DE")(s); s.Workers = 5 }, func(r *vtest.Rig) {
		carrier := &slowCarrier{each: time.Second}
		r.Svc = r.ReplicaOn(r.Store, r.MailServer, carrier)
		r.Start()
		for n := range 40 {
			r.NoError(vtest.Err(r.Svc.Send(r.Context(), vtest.TextTo(vtest.NthNumber(n)))))
		}
		r.Sleep(10 * time.Second)
		if len(carrier.Accepted()) != 40 || carrier.most != 5 {
			t.Errorf("%d text messages, %d at once", len(carrier.Accepted()), carrier.most)
		}
	})
}
