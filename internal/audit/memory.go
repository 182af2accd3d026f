package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// Memory is a log in memory, the twin of the databases: other packages test against it, with a clock that they step and
// with calls that fail. Give one Memory to several services to have replicas; drop a service to have a crash: its rows
// stay, and their leases run out. Safe for concurrent use.
type Memory struct {
	mu            sync.Mutex
	now           func() time.Time
	fault         func(method string) Fault
	closed        bool
	verifications map[string]*Verification
	rows          map[uuid.UUID]*memoryRow
	buckets       map[memoryBucket][]*memoryRow // sends and refusals of one recipient
	claims        map[[32]byte]*memoryClaim
	acts          []Act
	accounts      map[string]Account
	factors       map[string]SecondFactor
	recovery      map[string]map[[32]byte]bool // hashes of codes by account
	sessions      map[[32]byte]Session
	suppressions  map[uuid.UUID]*Suppression
	events        map[uuid.UUID]*AppEvent
	erasures      map[recipient.Hash]time.Time // when the hash may go
	spending      map[accountKey]int64
	embargoes     map[embargoKey]embargoed
	told          map[uuid.UUID][]ProviderEvent // of sends
	prefixPauses  []PrefixPause                 // in the order in which they began
	turns         map[string]time.Time          // until when
	awaited       []*memoryAwaited
}

type memoryRow struct {
	Send
	receipt     Status    // what a carrier said afterwards; may come before the outcome
	refundSince time.Time // when the refund was set or leased last
}

type memoryBucket struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
}

func (s Send) bucket() memoryBucket { return memoryBucket{s.App, s.Channel, s.Recipient} }

// NewMemory makes an empty log. now is its own clock; it is read while the log is locked, so it must not call back.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		now: now, verifications: map[string]*Verification{}, rows: map[uuid.UUID]*memoryRow{},
		buckets: map[memoryBucket][]*memoryRow{}, claims: map[[32]byte]*memoryClaim{}, suppressions: map[uuid.UUID]*Suppression{},
		events: map[uuid.UUID]*AppEvent{}, told: map[uuid.UUID][]ProviderEvent{}, erasures: map[recipient.Hash]time.Time{}, spending: map[accountKey]int64{}, embargoes: map[embargoKey]embargoed{},
		accounts: map[string]Account{}, sessions: map[[32]byte]Session{},
		factors: map[string]SecondFactor{}, recovery: map[string]map[[32]byte]bool{},
		turns: map[string]time.Time{},
	}
}

// SetFault makes later calls ask f, with the method's name, what goes wrong with them; nil: nothing does. f is called
// while the log is locked, so it must not call back.
func (m *Memory) SetFault(f func(method string) Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// enter locks the log for one call at the log's now; leave must follow when it returns no error.
func (m *Memory) enter(ctx context.Context, method string) (now time.Time, lost bool, err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m.mu.Lock()
	fault := None
	if m.fault != nil {
		fault = m.fault(method)
	}
	if m.closed || fault == Down {
		m.mu.Unlock()
		return time.Time{}, false, ErrUnavailable
	}
	return micro(m.now()), fault == Lost, nil
}

func (m *Memory) leave(lost bool, err *error) {
	m.mu.Unlock()
	if lost && *err == nil {
		*err = fmt.Errorf("%w: %w", ErrUnavailable, ErrUncertain)
	}
}

// Ping implements Log.
func (m *Memory) Ping(ctx context.Context) (err error) {
	_, lost, err := m.enter(ctx, "Ping")
	if err != nil {
		return err
	}
	m.leave(lost, &err)
	return err
}

// Close implements Log: later calls find the log unavailable.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// byLogged orders rows as pages do, oldest first.
func byLogged(a, b Send) int {
	return cmp.Or(a.LoggedAt.Compare(b.LoggedAt), slices.Compare(a.ID[:], b.ID[:]))
}
