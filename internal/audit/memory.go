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
}

type memoryRow struct {
	Send
	refundSince time.Time // when the refund was set or leased last
}

type memoryBucket struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
}

func (s Send) bucket() memoryBucket { return memoryBucket{s.App, s.Channel, s.Recipient} }

// Fault is what a test makes of one call.
type Fault int

// The faults.
const (
	None Fault = iota
	Down       // the log is away: nothing happens, ErrUnavailable
	Lost       // it happens, but the answer is lost: ErrUnavailable and ErrUncertain
)

// NewMemory makes an empty log. now is its own clock; it is read while the log is locked, so it must not call back.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		now: now, verifications: map[string]*Verification{}, rows: map[uuid.UUID]*memoryRow{},
		buckets: map[memoryBucket][]*memoryRow{},
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

// Begin implements Log.
func (m *Memory) Begin(ctx context.Context, intent Intent) (begun Begun, err error) {
	in, err := checked(intent)
	if err != nil {
		return Begun{}, err
	}
	now, lost, err := m.enter(ctx, "Begin")
	if err != nil {
		return Begun{}, err
	}
	defer func() {
		if lost {
			begun = Begun{}
		}
	}()
	defer m.leave(lost, &err)
	if row, ok := m.rows[in.Send.ID]; ok {
		return repeated(in, row.Send, m.verification(row.VerificationID))
	}
	events := history(in, now, m.past(in))
	if !admits(in, now, events) {
		return refused(in, now, events), nil
	}
	v := m.join(in, now)
	if v == nil {
		fresh := opened(in, now)
		v = &fresh
		m.verifications[v.ID] = v
	}
	v.Sends++
	row := &memoryRow{Send: written(in, *v, v.Sends, now)}
	m.add(row)
	return Begun{Admitted: true, Verification: m.verification(v.ID), Send: row.Send, Now: now, Clock: LogClock}, nil
}

func (m *Memory) add(row *memoryRow) {
	m.rows[row.ID] = row
	m.buckets[row.bucket()] = append(m.buckets[row.bucket()], row)
}

func (m *Memory) past(in Intent) []past {
	var rows []past
	for _, r := range m.buckets[in.Send.bucket()] {
		if r.Counts && slices.Contains(in.Purposes, r.Purpose) {
			rows = append(rows, past{id: r.ID, clock: r.Clock, takenAt: r.TakenAt, loggedAt: r.LoggedAt})
		}
	}
	return rows
}

func (m *Memory) join(in Intent, now time.Time) *Verification {
	var best *Verification
	for _, v := range m.verifications {
		if joinable(*v, in, now) && (best == nil || newer(*v, *best)) {
			best = v
		}
	}
	return best
}

// verification is a copy; zero when there is none.
func (m *Memory) verification(id string) Verification {
	v, ok := m.verifications[id]
	if !ok {
		return Verification{}
	}
	c := *v
	c.Sealed, c.Nonce = slices.Clone(v.Sealed), slices.Clone(v.Nonce)
	return c
}

// Attempt implements Log.
func (m *Memory) Attempt(ctx context.Context, id string) (v Verification, ok bool, now time.Time, err error) {
	now, lost, err := m.enter(ctx, "Attempt")
	if err != nil {
		return Verification{}, false, now, err
	}
	defer m.leave(lost, &err)
	stored, found := m.verifications[id]
	if !found {
		return Verification{}, false, now, ErrNotFound
	}
	ok = pending(*stored, now)
	if ok {
		stored.Attempts++
	}
	return m.verification(id), ok, now, nil
}

// Approve implements Log.
func (m *Memory) Approve(ctx context.Context, id string) (ok bool, err error) {
	now, lost, err := m.enter(ctx, "Approve")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	v, found := m.verifications[id]
	if !found || !open(*v, now) {
		return false, nil
	}
	v.ApprovedAt = now
	return true, nil
}

// Refused implements Log.
func (m *Memory) Refused(ctx context.Context, refusals []Send) (err error) {
	rows, err := merged(refusals)
	if err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Refused")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	for _, r := range rows {
		old, ok := m.rows[r.ID]
		switch {
		case !ok:
			r.LoggedAt, r.FinishedAt = now, now
			if r.Clock == LogClock {
				r.TakenAt = now
			}
			m.add(&memoryRow{Send: r})
		case old.Status == Refused:
			old.Count, old.RetryAfter = old.Count+r.Count, r.RetryAfter
		}
	}
	return nil
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
