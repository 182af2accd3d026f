package outbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// asked is a log that notes what it is asked for, and that has the rows given.
type asked struct {
	Store
	calls []string
	away  map[string]bool // methods that fail
	rows  map[uuid.UUID]store.Status
	held  []store.Held // that were renewed
}

func (a *asked) call(method string) error {
	a.calls = append(a.calls, method)
	if a.away[method] {
		return store.ErrUnavailable
	}
	return nil
}

func (a *asked) Ping(context.Context) error { return a.call("Ping") }

func (a *asked) SendsByID(_ context.Context, ids []uuid.UUID) (rows []store.Send, err error) {
	for _, id := range ids {
		if s, ok := a.rows[id]; ok {
			rows = append(rows, store.Send{ID: id, Status: s})
		}
	}
	return rows, a.call(fmt.Sprint("SendsByID ", len(ids)))
}

func (a *asked) Release(context.Context, [32]byte, uuid.UUID, bool) error { return a.call("Release") }

func (a *asked) RefundsDue(context.Context, time.Duration, int) ([]store.Refund, error) {
	return nil, a.call("RefundsDue")
}

func (a *asked) TakeOver(context.Context, recipient.Channel, time.Duration, int) ([]store.Work, error) {
	return nil, a.call("TakeOver")
}

func (a *asked) Postpone(context.Context, store.Postponement) (bool, error) { return true, nil }

func (a *asked) Renew(_ context.Context, _ time.Duration, held []store.Held) error {
	a.held = append(a.held, held...)
	return a.call("Renew")
}

type settling struct {
	*Outbox
	*testing.T
	log     *asked
	limiter *limiter
	now     time.Time
}

func newSettling(t *testing.T) *settling {
	s := &settling{T: t, log: &asked{away: map[string]bool{}, rows: map[uuid.UUID]store.Status{}}, limiter: &limiter{}, now: time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return s.now }
	s.Outbox = New(Config{}, Parts{
		Store: s.log, Gate: s.limiter, Policy: policy.NewInForce(hourly("own"), now), Now: now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	return s
}

// says compares what the log was asked for, and what the limiter was told, since the last time.
func (s *settling) says(what string, calls []string, told ...string) {
	s.Helper()
	if !slices.Equal(s.log.calls, calls) || !slices.Equal(s.limiter.calls, told) {
		s.Errorf("%s: the log was asked %q, the limiter told %q; want %q, %q", what, s.log.calls, s.limiter.calls, calls, told)
	}
	s.log.calls, s.limiter.calls = nil, nil
}

// A row counts as never written once it has been missing for SettledAfter, to the instant. Before it is looked up something is written.
func TestARowIsMissingForAWhileBeforeItsPlaceIsGivenBack(t *testing.T) {
	s := newSettling(t)
	id := uuid.UUID{1}
	s.ReconcileLater(id, place("ana"))
	s.log.rows[id] = store.Refused // a refusal's row is not the send's
	s.log.away["Ping"] = true
	s.reconcile(t.Context())
	s.says("away", []string{"Ping"})
	s.log.away["Ping"] = false
	looked := []string{"Ping", "SendsByID 1"}
	s.reconcile(t.Context())
	s.says("missing", looked)
	s.now = s.now.Add(MissingFor - 1)
	s.reconcile(t.Context())
	s.says("missing for less", looked)
	s.now = s.now.Add(1)
	s.reconcile(t.Context())
	s.says("missing for long", looked, fmt.Sprintf("local %s [ana]", id[:]))
	s.reconcile(t.Context())
	s.says("settled", nil)
}

// More than one statement's worth are looked up, each of them.
func TestAllThatIsUncertainIsLookedUp(t *testing.T) {
	s := newSettling(t)
	for i := range maxLookup + 2 {
		id := uuid.UUID{byte(i), byte(i >> 8), 1}
		s.ReconcileLater(id, place("ana"))
		s.log.rows[id] = store.Queued
	}
	s.reconcile(t.Context())
	s.says("there", []string{"Ping", "SendsByID 1000", "SendsByID 2"})
	s.reconcile(t.Context())
	s.says("settled", nil)
}

// A key is not given up once another request may hold it: two timeouts before its lease ends a release could come too late.
func TestAKeyIsGivenUpWithinItsLease(t *testing.T) {
	const lease = 15 * time.Second
	for after, want := range map[time.Duration][]string{
		lease - 2*store.CallTimeout: {"Ping", "SendsByID 1", "Release"}, lease - 2*store.CallTimeout + 1: {"Ping", "SendsByID 1"},
	} {
		s := newSettling(t)
		s.ReleaseLater([32]byte{1}, uuid.UUID{1}, lease)
		s.now = s.now.Add(after)
		s.reconcile(t.Context())
		s.says(after.String(), want)
		s.reconcile(t.Context())
		s.says("settled", nil)
	}
}

// After an outage of the log its leases are renewed at once, and nothing is taken over for a lease, by a tick or for want of work.
func TestAfterAnOutageOutcomesComeFirst(t *testing.T) {
	s := newSettling(t)
	held := store.Work{Send: store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 1}}
	s.track(held)
	s.now = s.now.Add(s.Lease) // overdue for a renewal
	s.log.away["RefundsDue"] = true
	s.tick(t.Context())
	s.takeOverIfReady(t.Context())
	s.says("away", []string{"RefundsDue"})
	s.log.away["RefundsDue"] = false
	s.tick(t.Context())
	s.says("back", []string{"RefundsDue", "Renew"})
	s.now = s.now.Add(s.Lease - 1)
	s.takeOverIfReady(t.Context())
	s.tick(t.Context())
	s.says("within a lease", []string{"RefundsDue"})
	s.now = s.now.Add(1)
	s.takeOverIfReady(t.Context())
	s.says("afterwards", []string{"TakeOver", "TakeOver"})
	s.tick(t.Context())
	s.says("afterwards, a tick", []string{"RefundsDue", "TakeOver", "TakeOver"})
}

// A stop tells the limiter what waits for it.
func TestAStopFlushes(t *testing.T) {
	s := newSettling(t)
	s.enqueueSync(pendingSync{id: "a", buckets: []string{"ana"}})
	s.stop()
	s.says("stopped", nil, "refund a [ana]")
}

// A request that stops waiting for its outcome leaves nothing behind.
func TestAnEndedWaitIsForgotten(t *testing.T) {
	s := newSettling(t)
	s.lanes[recipient.Email].behind = true // so that no worker begins
	work := store.Work{Send: store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 1}}
	if sent := s.Deliver(t.Context(), work, time.Nanosecond); sent.Status != store.Queued || len(s.waiters.waiting) != 0 {
		t.Errorf("%s, %d wait", sent.Status, len(s.waiters.waiting))
	}
	s.work.Wait()
}
