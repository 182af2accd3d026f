package outbox_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/recipient"
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
