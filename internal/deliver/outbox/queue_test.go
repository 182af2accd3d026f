package outbox_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// memory is the capacity of most outboxes in these tests, in sends.
const memory = 60

// withSlowMailServer runs a test of a service whose mail server takes the time each for a mail, and
// whose outbox has the capacity room. Codes of the purpose login live for 2 min.
func withSlowMailServer(t *testing.T, each time.Duration, workers, room int, test func(*vtest.Rig)) {
	t.Helper()
	vtest.InBubbleIdle(t, vtest.DefaultTick(func(s *vtest.Settings) {
		s.Workers = workers
		login := s.Purposes["login"]
		login.TTL = 2 * time.Minute
		s.Purposes["login"] = login
	}), func(r *vtest.Rig) {
		r.MailServer.Delay = each
		r.Svc.Outbox.Capacity = room
		r.Start()
		test(r)
	})
}

// persons returns the recipients of the mails in their order, and fails the test unless each of n
// persons got one mail.
func persons(r *vtest.Rig, n int) (order []int) {
	r.Helper()
	for _, m := range r.MailServer.Attempts() {
		var person int
		if _, err := fmt.Sscanf(m.To, "person-%d@", &person); err != nil || slices.Contains(order, person) {
			r.Fatalf("an unexpected mail, or a second one: %v", err)
		}
		order = append(order, person)
	}
	r.Want("mails", len(order), n)
	return order
}

// Sends that wait in the database are fetched as soon as memory has capacity, not only at the next
// tick, and only as many as fit. In the end, no app counts as waiting in the database.
func TestQueueFetchesWhenCapacityIsFree(t *testing.T) {
	withSlowMailServer(t, 20*time.Millisecond, 10, memory, func(r *vtest.Rig) { // 500 mails a second
		r.SendMany(0, memory+240)
		for range 80 { // usually 0.6 s is enough
			r.Sleep(10 * time.Millisecond)
			if held, _ := r.Svc.Outbox.Held(recipient.Email); held > memory {
				t.Errorf("%d held in memory", held)
			}
		}
		persons(r, memory+240)
		r.Sleep(time.Second)
		held, behind := r.Svc.Outbox.Held(recipient.Email)
		vtest.Equal(r, "held in the end", held, 0)
		vtest.Equal(r, "behind in the end", behind, false)
	})
}

// While the database accepts no outcome, sending soon stops: a mail that is sent and not recorded
// would be sent again after a crash.
func TestQueuePausesWhileTheDatabaseTakesNoOutcome(t *testing.T) {
	const sends = outbox.MaxPendingOutcomes + 400
	withSlowMailServer(t, 100*time.Millisecond, 100, outbox.DefaultCapacity, func(r *vtest.Rig) {
		r.SendMany(0, sends)
		r.Sleep(time.Millisecond)
		r.LoseStore()
		r.Sleep(7 * time.Second) // less than a lease
		// 300 more may go out, because of the attempts under way at the beginning and at the end.
		if stopped := len(r.MailServer.Attempts()); stopped > outbox.MaxPendingOutcomes+300 {
			t.Errorf("%d mails went out that no crash may come after", stopped)
		}
		r.EndStoreFaults()
		r.Sleep(10 * time.Second)
		persons(r, sends)
	})
}

// A stop does not wait for sends that have not begun: it releases them, and the next process
// delivers them at once.
func TestStopReleasesQueuedSends(t *testing.T) {
	withSlowMailServer(t, time.Second, 4, outbox.DefaultCapacity, func(r *vtest.Rig) {
		ids := r.SendMany(0, 100)
		r.Sleep(100 * time.Millisecond)
		began := time.Now()
		r.Quit()
		if took := time.Since(began); took > outbox.MaxStopWait+time.Second {
			t.Errorf("the stop took %v", took)
		}
		r.MailServer.Delay = 0
		r.Svc = r.Replica(r.MailServer)
		r.Start()
		r.Sleep(5 * time.Second) // less than a lease
		for _, id := range ids {
			r.Want("a send", r.Get(id).Send.Status, "sent")
		}
	})
}

// The queue in memory is served in the order of expiry, and codes that expire together in the order
// of their requests. There is one worker, so mails leave one by one.
func TestQueueIsServedInTheOrderOfExpiry(t *testing.T) {
	withSlowMailServer(t, time.Second, 1, memory, func(r *vtest.Rig) {
		for n := range 12 {
			r.SendTo(vtest.NthAddress(n), vtest.For([]string{"", "", "login"}[n%3]))
			r.Sleep(time.Millisecond)
		}
		r.Sleep(5 * time.Second)
		persons(r, 6)
		r.Sleep(10 * time.Second)
		r.Want("the order", persons(r, 12), "[0 2 5 8 11 1 3 4 6 7 9 10]")
	})
}

// Memory holds exactly its capacity, and the next send waits in the database. While a send waits
// there, a new send waits there too, even if memory has capacity again. Otherwise the old send
// might never have its turn.
func TestQueueHoldsExactlyItsCapacity(t *testing.T) {
	withSlowMailServer(t, time.Second, 1, memory, func(r *vtest.Rig) {
		r.Sleep(500 * time.Millisecond) // between two ticks
		ids := r.SendMany(0, memory+1)
		r.Sleep(time.Second + time.Millisecond) // one message was delivered
		ids = append(ids, r.SendMany(memory+1, 1)...)
		synctest.Wait()
		for n, want := range map[int]string{memory - 1: "", memory: "backlog", memory + 1: "backlog"} {
			r.Want(fmt.Sprint("send ", n), r.Get(ids[n]).Send.Reason, want)
		}
	})
}

// An app's mails do not wait for the backlog of another app: apps take turns, and each has a share
// of the memory.
func TestQueueAppsTakeTurns(t *testing.T) {
	for name, room := range map[string]int{"in memory": outbox.DefaultCapacity, "in the database": memory} {
		t.Run(name, func(t *testing.T) {
			withSlowMailServer(t, 500*time.Millisecond, 1, room, func(r *vtest.Rig) {
				r.SendMany(0, 2*memory)
				other := vtest.BackEnd
				other.App = "club"
				for n := range memory / 10 {
					r.SendTo(vtest.NthAddress(1000+n), vtest.By(other))
				}
				r.Sleep(500 * time.Millisecond * (2*memory/10 + 2))
				for n, got := range persons(r, 2*memory/10+3)[1:] {
					if (got >= 1000) != (n%2 == 1 && n < 2*memory/10) {
						t.Errorf("mail %d is person %d's", n+1, got)
					}
				}
			})
		})
	}
}

// While the database accepts no outcomes, one line a second has the number of failed writes,
// however many sends wait.
func TestFailedOutcomeWritesAreLoggedOnceASecond(t *testing.T) {
	withSlowMailServer(t, time.Millisecond, 16, memory, func(r *vtest.Rig) {
		r.FailStore(sqlitetest.Down, "Finish")
		r.SendMany(0, memory)
		r.Sleep(10 * time.Second)
		r.EndStoreFaults()
		r.Sleep(2 * time.Second)
		persons(r, memory)
		failed, lines := 0, 0
		for _, m := range regexp.MustCompile(`could not store outcomes; retrying" count=(\d+)`).FindAllStringSubmatch(
			r.Printed.String(), -1) {
			n, _ := strconv.Atoi(m[1])
			failed, lines = failed+n, lines+1
		}
		if lines < 9 || lines > 11 || failed < 10*memory {
			t.Errorf("%d lines of %d failed writes", lines, failed)
		}
	})
}

// Every message of one channel hangs, and there are many more than the capacity. A message of the
// other channel still goes out at once, even if it had to wait in the database behind all of them.
func TestQueueOfAHangingChannelDelaysNoOther(t *testing.T) {
	mail := func(n int) verification.Request { return vtest.AskFor(vtest.NthAddress(n)) }
	text := func(n int) verification.Request { return vtest.TextTo(vtest.NthNumber(n)) }
	dead := &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial}
	for name, c := range map[string]struct {
		hanging, other func(n int) verification.Request
		hang, failOne  func(r *vtest.Rig)
	}{
		"a carrier": {
			text, mail, func(r *vtest.Rig) { r.Carrier.Delay = 20 * time.Second; r.Carrier.Fail(dead) },
			func(r *vtest.Rig) { r.MailServer.Answer(temporaryFailure) },
		},
		"a mail server": {mail, text, func(r *vtest.Rig) { r.MailServer.Delay = time.Minute }, func(r *vtest.Rig) { r.Carrier.Fail(dead) }},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleIdle(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
				c.hang(r)
				r.Svc.Outbox.Capacity = memory
				r.Start()
				for n := range memory + 100 {
					r.NoError(r.SendError(c.hanging(n)))
				}
				synctest.Wait()
				for n := range 3 * outbox.DefaultWorkers {
					r.WantStatus(r.Send(c.other(n)), "sent")
				}
				c.failOne(r)
				a := r.Send(c.other(1000))
				r.Carrier.Fail(nil)
				r.Sleep(10 * time.Second)
				r.WantStatus(a, "sent")
			})
		})
	}
}
