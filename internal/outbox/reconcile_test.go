package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// A row counts as never written once it has been missing for MissingFor, to the instant. Before it is looked up something is written.
func TestARowIsMissingForAWhileBeforeItsPlaceIsGivenBack(t *testing.T) {
	s := newIdle(t)
	id := uuid.UUID{1}
	s.ReconcileLater(id, place("ana"))
	s.log.rows = map[uuid.UUID]store.Status{id: store.Refused} // a refusal's row is not the send's
	s.log.away["Ping"] = true
	s.reconcile(t.Context())
	s.asked("away", []string{"Ping"})
	s.log.away["Ping"] = false
	looked := []string{"Ping", "SendsByID 1"}
	s.reconcile(t.Context())
	s.asked("missing", looked)
	s.now = s.now.Add(MissingFor - 1)
	s.reconcile(t.Context())
	s.asked("missing for less", looked)
	s.now = s.now.Add(1)
	s.reconcile(t.Context())
	s.asked("missing for long", looked, fmt.Sprintf("local %s [ana]", id[:]))
	s.reconcile(t.Context())
	s.asked("settled", nil)
}

// More than one statement's worth are looked up, each of them.
func TestAllThatIsUncertainIsLookedUp(t *testing.T) {
	s := newIdle(t)
	for i := range maxLookup + 2 {
		id := uuid.UUID{byte(i), byte(i >> 8), 1}
		s.ReconcileLater(id, place("ana"))
	}
	s.reconcile(t.Context())
	s.asked("there", []string{"Ping", "SendsByID 1000", "SendsByID 2"})
	s.reconcile(t.Context())
	s.asked("settled", nil)
}

// After an outage of the log its leases are renewed at once, and nothing is taken over for a lease, by a tick or for want of work.
func TestAfterAnOutageOutcomesComeFirst(t *testing.T) {
	s := newIdle(t)
	held := store.Work{Send: store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 1}}
	s.track(held)
	s.now = s.now.Add(s.Lease) // overdue for a renewal
	s.log.away["RefundsDue"] = true
	s.tick(t.Context())
	s.takeOverIfReady(t.Context())
	s.asked("away", []string{"RefundsDue"})
	s.log.away["RefundsDue"] = false
	s.tick(t.Context())
	s.asked("back", []string{"RefundsDue", "Renew"})
	s.now = s.now.Add(s.Lease - 1)
	s.takeOverIfReady(t.Context())
	s.tick(t.Context())
	s.asked("within a lease", []string{"RefundsDue"})
	s.now = s.now.Add(1)
	s.takeOverIfReady(t.Context())
	s.asked("afterwards", []string{"TakeOver", "TakeOver"})
	s.tick(t.Context())
	s.asked("afterwards, a tick", []string{"RefundsDue", "TakeOver", "TakeOver"})
}

// A stop tells the limiter what waits for it.
func TestAStopFlushes(t *testing.T) {
	s := newIdle(t)
	s.enqueueSync(pendingSync{id: "a", buckets: []string{"ana"}, keep: time.Hour})
	s.stop()
	s.asked("stopped", nil, "refund a [ana]")
}

// A request that stops waiting for its outcome leaves nothing behind.
func TestAnEndedWaitIsForgotten(t *testing.T) {
	s := newIdle(t)
	s.lanes[recipient.Email].behind = true // so that no worker begins
	work := store.Work{Send: store.Send{ID: uuid.UUID{1}, Channel: recipient.Email, Attempt: 1}}
	sent := s.Deliver(t.Context(), work, time.Nanosecond)
	if _, waits := s.waiters.Load(work.Send.ID); waits || sent.Status != store.Queued {
		t.Errorf("%s, still waits: %v", sent.Status, waits)
	}
	s.work.Wait()
}
