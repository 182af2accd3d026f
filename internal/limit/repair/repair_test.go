package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// fakeLimiter records its calls, and fails while it is limiterAway.
type fakeLimiter struct {
	calls       []string
	limiterAway bool
	partly      string // ID of an event whose refund fails as if a part of a Cluster were away
	then        func() // runs once, before the next call has an effect
}

func (l *fakeLimiter) call(format string, args ...any) error {
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
	if l.limiterAway {
		return quota.ErrUnavailable
	}
	l.calls = append(l.calls, fmt.Sprintf(format, args...))
	return nil
}

func (l *fakeLimiter) Refund(_ context.Context, id string, buckets ...string) error {
	if l.partly == id {
		l.calls = append(l.calls, "partly")
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, quota.ErrPartly)
	}
	return l.call("refund %s %v", id, buckets)
}

func (l *fakeLimiter) RefundLater(id string, buckets ...string) {
	_ = l.call("later %s %v", id, buckets)
}

func (l *fakeLimiter) KeepRefund(id string, buckets ...string) {
	l.calls = append(l.calls, fmt.Sprintf("keep %s %v", id, buckets))
}

func (l *fakeLimiter) Away(err error) bool { return err != nil && !errors.Is(err, quota.ErrPartly) }

func (l *fakeLimiter) RefundsAdded() <-chan struct{} { return nil }

func (l *fakeLimiter) MakePendingRefunds(context.Context) { l.calls = append(l.calls, "pending") }

func (l *fakeLimiter) Record(_ context.Context, _ quota.Scope, bucket string, keep time.Duration, _ time.Time,
	events ...quota.AgedEvent,
) error {
	return l.call("record %s %v %s", bucket, keep, strings.TrimSpace(events[0].ID))
}

// fakeDatabase records its calls.
type fakeDatabase struct {
	Store
	calls  []string
	away   map[string]bool            // calls that fail
	rows   map[uuid.UUID]store.Status // the existing rows; nil: all exist
	reset  map[string]bool            // sends that do not count
	due    []store.Refund
	logged time.Time     // when the sends were written
	lease  time.Duration // the lease of the taken refunds
	limit  int           // the number of requested refunds
}

func (f *fakeDatabase) call(call string) error {
	f.calls = append(f.calls, call)
	if f.away[call] {
		return fault.Unavailable
	}
	return nil
}

func (f *fakeDatabase) Ping(context.Context) error { return f.call("Ping") }

func (f *fakeDatabase) SendsByID(_ context.Context, ids []uuid.UUID) (rows []store.SendOrRefusal, now time.Time, err error) {
	for _, id := range ids {
		if status, there := f.rows[id]; there || f.rows == nil {
			row := store.Send{
				ID: id, Status: status, App: "shop", Channel: recipient.Email, Purpose: "login",
				Recipient: recipient.Hash{1}, LoggedAt: f.logged, FinishedAt: f.logged, Counts: !f.reset[strings.TrimSpace(string(id[:]))],
			}
			rows = append(rows, store.SendOrRefusal{Send: row})
		}
	}
	if err = f.call(fmt.Sprint("SendsByID ", len(ids))); err != nil {
		return nil, now, err
	}
	return rows, time.Now(), nil
}

func (f *fakeDatabase) LeaseDueRefunds(_ context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	f.lease, f.limit = lease, limit
	return f.due, f.call("LeaseDueRefunds")
}

func (f *fakeDatabase) ConfirmRefund(_ context.Context, h store.AttemptID) error {
	return f.call(fmt.Sprint("Refunded ", h.ID[0]))
}

// idle is a Repair that does not run. Its database and its limiter record their calls.
type idle struct {
	*Repair
	*fakeLimiter
	*testing.T
	db      *fakeDatabase
	printed strings.Builder // the log
}

var login = policy.Purpose{Name: "login", Policy: quota.Policy{Name: "own", Rules: []quota.Rule{
	{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
}}}

func newIdle(t *testing.T) *idle {
	r := &idle{fakeLimiter: &fakeLimiter{}, T: t, db: &fakeDatabase{away: map[string]bool{}, reset: map[string]bool{}}}
	r.db.logged = time.Now()
	set := policy.Set{Purposes: map[string]policy.Purpose{"login": login}}
	r.Repair = &Repair{
		Store: r.db, Limiter: r.fakeLimiter, Policy: policy.NewCurrentSet(set, time.Now), Now: time.Now,
		Lease: time.Second, Tick: time.Second, Logger: slog.New(slog.NewTextHandler(&r.printed, nil)),
	}
	return r
}

// wantCalls fails the test unless calls are the database's calls since the last comparison, and
// limiterCalls are the limiter's.
func (i *idle) wantCalls(what string, calls []string, limiterCalls ...string) {
	i.Helper()
	servertest.Same(i.T, what+": calls of the database", fmt.Sprintf("%q", i.db.calls), fmt.Sprintf("%q", calls))
	i.wants(what, limiterCalls...)
	i.db.calls = nil
}

// wants fails the test unless these are the limiter's calls since the last comparison.
func (i *idle) wants(what string, calls ...string) {
	i.Helper()
	servertest.Same(i.T, what, fmt.Sprintf("%q", i.calls), fmt.Sprintf("%q", calls))
	i.calls = nil
}

// settleAll settles the sends, as Run does at each tick.
func (i *idle) settleAll() { i.settle(i.Context()) }

func place(name string) map[quota.Scope]string { return map[quota.Scope]string{quota.Recipient: name} }

// refundLaterCall returns the call of RefundLater that refunds a send.
func refundLaterCall(id, bucket string) []string {
	return []string{fmt.Sprintf("later %-16s [%s]", id, bucket)}
}

// queueSend queues a send that only the database has counted for the recipient. It returns the
// send's bucket.
func (i *idle) queueSend(h byte, id string) (bucket string) {
	p := buckets.NewPlan(buckets.Subject{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{h}, Purpose: login},
		login.Policy.Rules)
	i.SettleLater(uuid.UUID([]byte(fmt.Sprintf("%-16s", id))), p.Buckets)
	return p.Buckets[quota.Recipient]
}

// Refunds that only the database has are made in the limiter and then confirmed. While the limiter
// is away, each round ends after one failed refund, and the next round requests a single refund.
// The log has one line for each outage.
func TestRefundDueRowsRepeats(t *testing.T) {
	r := newIdle(t)
	for n := range byte(2) {
		r.db.due = append(r.db.due, store.Refund{
			AttemptID: store.AttemptID{ID: uuid.UUID{n + 1}, Attempt: 1}, Verification: store.Verification{
				App:     "shop",
				Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{n},
			},
		})
	}
	repeat := func() {
		t.Helper()
		r.refundDueRows(t.Context())
	}
	r.limiterAway = true
	repeat()
	r.wantCalls("away", []string{"LeaseDueRefunds"})
	servertest.Same(t, "lease", r.db.lease, r.Lease)
	servertest.Same(t, "limit", r.db.limit, refundBatch)
	repeat()
	r.wantCalls("still away", []string{"LeaseDueRefunds"})
	servertest.Same(t, "lines", strings.Count(r.printed.String(), "refund postponed"), 1)
	r.limiterAway = false
	repeat()
	servertest.Same(t, "limit after a failure", r.db.limit, 1)
	var refundCalls []string
	for _, due := range r.db.due {
		v := due.Verification
		bucket := buckets.Recipient(v.App, v.Channel, login.SharedBucketName(), v.Recipient)
		refundCalls = append(refundCalls, fmt.Sprintf("refund %s [%s]", string(due.ID[:]), bucket))
	}
	r.wantCalls("back", []string{"LeaseDueRefunds", "Refunded 1", "Refunded 2"}, refundCalls...)
	r.limiterAway = true
	repeat()
	servertest.Same(t, "limit after that", r.db.limit, refundBatch)
	servertest.Same(t, "lines in the next outage", strings.Count(r.printed.String(), "refund postponed"), 2)
}

// If one refund of the database fails, the others are still made.
func TestRefundDueRowsAfterOneThatFails(t *testing.T) {
	r := newIdle(t)
	for n := range byte(2) {
		r.db.due = append(r.db.due, store.Refund{AttemptID: store.AttemptID{ID: uuid.UUID{n + 1}, Attempt: 1}})
	}
	r.partly = string(r.db.due[0].ID[:])
	r.refundDueRows(t.Context())
	second := r.db.due[1].ID
	r.wantCalls("both", []string{"LeaseDueRefunds", "Refunded 2"}, "partly", fmt.Sprintf("refund %s []", second[:]))
	r.refundDueRows(t.Context())
	servertest.Same(t, "limit", r.db.limit, refundBatch)
}

// A send is recorded a second time, when the tombstone of a late refund has ended, and then no
// more. It is not recorded again if it no longer counts by then.
func TestSettleRecordsASendOnceMore(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		r := newIdle(t)
		bucket := r.queueSend(1, "a")
		r.queueSend(1, "b")
		recorded := func(id string) string { return "record " + bucket + " 1h0m0s " + id }
		r.settleAll()
		r.wants("at once", recorded("a"), recorded("b"))
		time.Sleep(repeatRecordAfter - 1)
		r.settleAll()
		r.wants("before")
		r.db.reset["b"] = true
		time.Sleep(time.Nanosecond)
		r.settleAll()
		r.wants("after", append([]string{recorded("a")}, refundLaterCall("b", bucket)...)...)
		time.Sleep(repeatRecordAfter)
		r.settleAll()
		r.wants("no more")
	})
}

// A send can still be recorded at the end of its window, but not later.
func TestSettleRecordsToTheEndOfTheWindow(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		r := newIdle(t)
		bucket := r.queueSend(1, "a")
		time.Sleep(time.Hour)
		r.settleAll()
		r.wants("at the end", "record "+bucket+" 1h0m0s a")
		r.queueSend(1, "b")
		time.Sleep(time.Nanosecond)
		r.settleAll()
		r.wants("after it")
	})
}

// While the database or the limiter is away, no send is forgotten: each is recorded once both are
// back.
func TestSettleKeepsWhatFails(t *testing.T) {
	r := newIdle(t)
	bucket := r.queueSend(1, "a")
	r.queueSend(1, "b")
	r.queueSend(1, "c")
	recorded := func(id string) string { return "record " + bucket + " 1h0m0s " + id }
	r.db.away["Ping"] = true
	r.settleAll()
	r.wants("without the database")
	r.db.away["Ping"], r.db.away["SendsByID 1"] = false, true
	r.settleAll()
	r.wants("without the row")
	r.db.away["SendsByID 1"], r.limiterAway = false, true
	r.settleAll()
	r.wants("without the limiter")
	r.limiterAway = false
	r.settleAll()
	r.wants("with both", recorded("a"), recorded("b"), recorded("c"))
}

// A reset may come while a send is on its way to the limiter, or while it waits after a lost
// answer. The send is then reset, too.
func TestResetDuringRecord(t *testing.T) {
	r := newIdle(t)
	bucket := r.queueSend(1, "a")
	r.then = func() { r.db.reset["a"] = true }
	r.settleAll()
	r.wants("under way", append([]string{"record " + bucket + " 1h0m0s a"}, refundLaterCall("a", bucket)...)...)
	r.settleAll()
	r.wants("later")

	r.queueSend(1, "b")
	r.then = func() { r.limiterAway, r.db.away["SendsByID 1"] = false, true }
	r.settleAll()
	r.db.away["SendsByID 1"], r.db.reset["b"] = false, true
	r.wants("the database is away", "record "+bucket+" 1h0m0s b")
	r.settleAll()
	r.wants("reset meanwhile", refundLaterCall("b", bucket)...)
}

func TestSettleLaterIsBounded(t *testing.T) {
	r := newIdle(t)
	for range maxUnsettled + 1 {
		r.SettleLater(uuid.UUID{}, nil)
	}
	servertest.Same(t, "what waits", len(r.unsettled), maxUnsettled)
}

// A row counts as never written as soon as it has been missing for NeverWrittenAfter. Ping, which
// writes a little, runs before each lookup.
func TestRefundAfterNeverWrittenTime(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		s := newIdle(t)
		id := uuid.UUID{1}
		s.SettleLater(id, place("ana"))
		s.db.rows = map[uuid.UUID]store.Status{id: store.Refused} // a refusal's row is not the send's
		s.db.away["Ping"] = true
		s.settle(t.Context())
		s.wantCalls("away", []string{"Ping"})
		s.db.away["Ping"] = false
		lookupCalls := []string{"Ping", "SendsByID 1"}
		s.settle(t.Context())
		s.wantCalls("missing", lookupCalls)
		time.Sleep(NeverWrittenAfter - 1)
		s.settle(t.Context())
		s.wantCalls("missing for less", lookupCalls)
		time.Sleep(time.Nanosecond)
		s.settle(t.Context())
		s.wantCalls("missing for long", lookupCalls, fmt.Sprintf("later %s [ana]", id[:]))
		s.settle(t.Context())
		s.wantCalls("settled", nil)
	})
}

// A repetition at a replica with other settings may have written the send for another recipient.
// Then the first recipient's place is given back.
func TestRefundOfSendToOtherRecipient(t *testing.T) {
	s := newIdle(t)
	id := uuid.UUID{1}
	s.SettleLater(id, map[quota.Scope]string{quota.Recipient: "another", quota.IP: "kept"})
	s.settle(t.Context())
	s.wantCalls("there", []string{"Ping", "SendsByID 1"}, fmt.Sprintf("later %s [another]", id[:]))
}

// If more rows are uncertain than one statement can look up, all are looked up, and the first is
// looked up alone.
func TestSettleLooksUpAllUncertainRows(t *testing.T) {
	s := newIdle(t)
	for i := range maxRowsPerLookup + 2 {
		s.SettleLater(uuid.UUID{byte(i), byte(i >> 8), 1}, nil)
	}
	s.settle(t.Context())
	s.wantCalls("there", []string{"Ping", "SendsByID 1", "Ping", "SendsByID 1000", "Ping", "SendsByID 1"})
	s.settle(t.Context())
	s.wantCalls("settled", nil)
}

// Run records a queued send at the first tick, and makes the pending refunds at each.
func TestRunSettlesAtATick(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		s := newIdle(t)
		bucket := s.queueSend(1, "a")
		ended, cancel := context.WithTimeout(t.Context(), 5*s.Tick/2)
		defer cancel()
		s.Repair.Run(ended)
		s.wants("two ticks and a stop", "pending", "record "+bucket+" 1h0m0s a", "pending", "pending")
	})
}

// A stop makes the records and the refunds that are queued.
func TestRunFlushesAtItsStop(t *testing.T) {
	s := newIdle(t)
	bucket := s.queueSend(1, "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.Repair.Run(ended)
	s.wants("stopped", "record "+bucket+" 1h0m0s a", "pending")
}

// A rejection is recorded as a failure: at once, or later if the limiter is away.
func TestRejectionsAreRecordedAsFailures(t *testing.T) {
	s := newIdle(t)
	send := store.Send{ID: uuid.UUID{7}, App: "shop", Channel: recipient.Email}
	failing := login
	failing.Policy.Rules = []quota.Rule{{Name: "failures", Scope: policy.FailuresScope, Limit: 1, Window: time.Hour}}
	s.Policy.Change(policy.Set{Purposes: map[string]policy.Purpose{"login": failing}})
	s.db.rows = map[uuid.UUID]store.Status{send.ID: store.Failed}
	want := fmt.Sprintf("record %s 1h0m0s %s", buckets.Failures("shop", recipient.Email, send.Recipient), send.ID[:])
	s.CountBadAddress(t.Context(), send)
	s.wants("at once", want)
	s.limiterAway = true
	s.CountBadAddress(t.Context(), send)
	s.limiterAway = false
	s.settle(t.Context())
	s.wants("after the limiter was away", want)
}
