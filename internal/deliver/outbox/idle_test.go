package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// fakeDatabase records its calls, except those of Postpone.
type fakeDatabase struct {
	Store
	calls []string
	away  map[string]bool // calls that fail
}

func (f *fakeDatabase) call(call string) error {
	f.calls = append(f.calls, call)
	if f.away[call] {
		return fault.Unavailable
	}
	return nil
}

func (f *fakeDatabase) Ping(context.Context) error { return f.call("Ping") }

func (f *fakeDatabase) TakeOverWithExpiredCode(context.Context, store.Queue, time.Duration, int) ([]store.Work, error) {
	return nil, f.call("TakeOverWithExpiredCode")
}

func (f *fakeDatabase) TakeOver(context.Context, store.Queue, time.Duration, int) ([]store.Work, error) {
	return nil, f.call("TakeOver")
}

func (f *fakeDatabase) Postpone(context.Context, store.Postponement) (bool, error) { return true, nil }

func (f *fakeDatabase) RenewLeases(context.Context, time.Duration, []store.AttemptID) error {
	return f.call("RenewLeases")
}

// idle is an outbox that does not run, on a database that records its calls.
type idle struct {
	*Outbox
	*testing.T
	db *fakeDatabase
}

func newIdle(t *testing.T) *idle {
	r := &idle{T: t, db: &fakeDatabase{away: map[string]bool{}}}
	r.Outbox = New(Config{}, Dependencies{Events: webhook.Events{Now: time.Now}, Store: r.db, Logger: slog.New(slog.DiscardHandler)})
	return r
}

// wantCalls fails the test unless these are the calls of the database since wantCalls was called
// last.
func (i *idle) wantCalls(what string, calls ...string) {
	i.Helper()
	servertest.Same(i.T, what+": calls of the database", fmt.Sprintf("%q", i.db.calls), fmt.Sprintf("%q", calls))
	i.db.calls = nil
}

// A message to which the carrier gave no ID awaits no receipt, because the receipt could not be
// matched to it.
func TestExpectReceiptNeedsAnID(t *testing.T) {
	o := newIdle(t)
	o.Receipts = struct{ ReceiptSources }{} // a call would panic
	o.expectReceipt(t.Context(), store.Work{}, delivery.Result{Provider: "fake"})
}

func TestRetryDelay(t *testing.T) {
	o := New(Config{}, Dependencies{})
	for n := range 100 {
		low, high := time.Hour, time.Duration(0)
		for range 200 {
			d := o.retryDelay(n)
			low, high = min(low, d), max(high, d)
		}
		if low < 1500*time.Millisecond || high > 37500*time.Millisecond || (n <= 1 && high > 2500*time.Millisecond) {
			t.Errorf("after attempt %d: %v to %v", n, low, high)
		}
	}
}

// An attempt that is submitted late does not replace a later attempt of the same row.
func TestLeasesTakeKeepsTheLaterAttempt(t *testing.T) {
	s := newIdle(t)
	send := store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 2, InDoubt: true}
	f := s.beginFlight(store.Work{Send: send})
	send.Attempt, send.InDoubt = 1, false
	if s.beginFlight(store.Work{Send: send}) != nil {
		t.Error("the row has two flights")
	}
	lease, inDoubt := s.leases.attemptOf(f)
	servertest.Same(t, "attempt", lease.Attempt, 2)
	servertest.Same(t, "in doubt", inDoubt, true)
}

// After an outage of the database, the leases are renewed at once. For the duration of one lease,
// no row is taken over, neither at a tick nor when memory has capacity again.
func TestTakeOverWaitsForOutcomesAfterAnOutage(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		s := newIdle(t)
		held := store.Work{Send: store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 1}}
		s.beginFlight(held)
		time.Sleep(s.Lease) // overdue for a renewal
		s.db.away["TakeOver"] = true
		s.tick(t.Context())
		s.db.away["TakeOver"], s.db.away["Ping"] = false, true
		s.tick(t.Context())
		s.takeOverIfReady(t.Context())
		s.wantCalls("away", "TakeOver", "Ping")
		s.db.away["Ping"] = false
		s.tick(t.Context())
		s.wantCalls("back", "Ping", "RenewLeases")
		time.Sleep(s.Lease - 1)
		s.takeOverIfReady(t.Context())
		s.tick(t.Context())
		s.wantCalls("within a lease")
		time.Sleep(time.Nanosecond)
		s.takeOverIfReady(t.Context())
		s.wantCalls("afterwards", "TakeOver", "TakeOver", "TakeOver", "TakeOver")
		s.tick(t.Context())
		s.wantCalls("afterwards, a tick", "TakeOver", "TakeOver", "TakeOver", "TakeOver")
	})
}

// suspended is a mail sender whose servers are all suspended. It admits the given number of
// messages.
type suspended struct {
	MailSender
	admits int
}

func (s suspended) ConnLimit() int { return 0 }

func (s suspended) AttemptsAllowed() int { return s.admits }

// While all mail servers are suspended, mails that wait in memory, in whatever lane, are tried
// before rows of the database. Mail servers do not limit text messages.
func TestWaitingMailsOfAllLanesAreTriedFirst(t *testing.T) {
	s := newIdle(t)
	s.Sender = suspended{admits: 2}
	for _, q := range store.Queues() {
		s.lanes[q].queued = 1
	}
	mails := store.Queue{Channel: recipient.Email}
	s.lanes[mails].queued = 0
	for _, q := range store.Queues() {
		want := 1
		if q.Channel == recipient.SMS {
			want = delivery.UnlimitedAttempts
		}
		servertest.Same(t, fmt.Sprintf("what %+v admits", q), s.attemptsAllowed(s.lanes[q]), want)
	}
}

// While all servers are suspended, rows of expired codes do not show whether other rows wait.
func TestTakeOverLaneDuringASuspension(t *testing.T) {
	s := newIdle(t)
	l := s.lanes[store.Queue{Channel: recipient.Email}]
	l.behind["shop"] = true
	for admits, left := range []int{1, 0} {
		s.Sender = suspended{admits: admits}
		servertest.Same(t, "error", s.takeOverLane(t.Context(), l), nil)
		servertest.Same(t, fmt.Sprintf("%d admitted, apps of which rows wait", admits), len(l.behind), left)
	}
}

// After a request stops waiting for its outcome, the outbox forgets the wait.
func TestSubmitForgetsAnEndedWait(t *testing.T) {
	s := newIdle(t)
	l := s.lanes[store.Queue{Channel: recipient.Email}]
	l.behind[""], l.flightsByApp[""] = true, s.Capacity // so that no worker begins
	work := store.Work{Send: store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 1}}
	sent := s.Submit(t.Context(), work, time.Nanosecond)
	_, waits := s.waiters.Load(work.Send.ID)
	servertest.Same(t, "the send", sent.Status, store.Queued)
	servertest.Same(t, "a request still waits", waits, false)
	s.work.Wait()
}

// A write that panics is repeated at growing intervals, so that the stacks of its panics do not
// fill the log.
func TestRetryWriteThatPanics(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		r, began, writes := newIdle(t), time.Now(), 0
		r.retryWrite(t.Context(), func(context.Context) (bool, error) {
			writes++
			if writes < 16 {
				panic("planted")
			}
			return true, nil
		})
		if took := time.Since(began).Round(time.Minute); took != 6*time.Minute {
			t.Errorf("%d writes took %v", writes, took)
		}
	})
}
