package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Awaited is a message that a carrier took, and of which nothing final is known.
type Awaited struct {
	Carrier string    // its name in the configuration
	ID      string    // the carrier's for it
	Send    uuid.UUID // that it was
	At      time.Time // when it was taken, on the log's clock
}

// Awaiting is the part of the log that knows which receipts are missing.
type Awaiting interface {
	// Await notes a message that a carrier has just taken; it may be asked after a while, or is only looked up where ask is 0.
	// Noted twice, it is one.
	Await(ctx context.Context, a Awaited, ask time.Duration) error
	// AwaitedSend is the send that a carrier's ID means, or ErrNotFound.
	AwaitedSend(ctx context.Context, carrier, id string) (uuid.UUID, error)
	// Inquiries are up to limit messages whose time to be asked has come, the longest overdue first. Each is put off to its next
	// time with it, twice as far as the one before, up to six hours: so no other replica asks as well, and one whose asker
	// died is asked again. What has been awaited for three days is given up.
	Inquiries(ctx context.Context, limit int) ([]Awaited, error)
	// Answered forgets what is awaited of a send: there is a receipt, or there will be none.
	Answered(ctx context.Context, send uuid.UUID) error
}

// The times of inquiries.
const (
	firstPause = 30 * time.Second // after the first one
	lastPause  = 6 * time.Hour
	awaitFor   = 72 * time.Hour
	doublings  = 10 // then the pause is the last one
)

// pauseAfter is the pause after an inquiry that was the nth, from 0 on.
func pauseAfter(n int) time.Duration { return min(firstPause<<min(n, doublings), lastPause) }

func (a Awaited) check(ask time.Duration) error {
	if a.Carrier == "" || a.ID == "" || a.Send == uuid.Nil || ask < 0 || !storable(a.Carrier, a.ID) {
		return bad("what is awaited names its carrier, its message and its send")
	}
	return nil
}

func checkInquiries(limit int) error {
	if limit < 1 || limit > maxPage {
		return bad("from 1 to %d messages are asked for", maxPage)
	}
	return nil
}

// oldestFirst orders them.
func oldestFirst(list []Awaited) []Awaited {
	slices.SortFunc(list, func(a, b Awaited) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Carrier, b.Carrier), cmp.Compare(a.ID, b.ID))
	})
	return list
}

type memoryAwaited struct {
	Awaited
	ask   time.Time // zero: never
	asked int
}

// Await implements Log.
func (m *Memory) Await(ctx context.Context, a Awaited, ask time.Duration) (err error) {
	if err := a.check(ask); err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Await")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	if slices.ContainsFunc(m.awaited, func(x *memoryAwaited) bool { return x.Carrier == a.Carrier && x.ID == a.ID }) {
		return nil
	}
	a.At = now
	x := &memoryAwaited{Awaited: a}
	if ask > 0 {
		x.ask = now.Add(ask.Truncate(time.Microsecond))
	}
	m.awaited = append(m.awaited, x)
	return nil
}

// AwaitedSend implements Log.
func (m *Memory) AwaitedSend(ctx context.Context, carrier, id string) (send uuid.UUID, err error) {
	_, lost, err := m.enter(ctx, "AwaitedSend")
	if err != nil {
		return send, err
	}
	defer m.leave(lost, &err)
	i := slices.IndexFunc(m.awaited, func(x *memoryAwaited) bool { return x.Carrier == carrier && x.ID == id })
	if i < 0 {
		return send, ErrNotFound
	}
	return m.awaited[i].Send, nil
}

// Inquiries implements Log.
func (m *Memory) Inquiries(ctx context.Context, limit int) (list []Awaited, err error) {
	if err := checkInquiries(limit); err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "Inquiries")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	m.awaited = slices.DeleteFunc(m.awaited, func(x *memoryAwaited) bool { return now.Sub(x.At) >= awaitFor })
	slices.SortFunc(m.awaited, func(a, b *memoryAwaited) int {
		return cmp.Or(a.ask.Compare(b.ask), cmp.Compare(a.Carrier, b.Carrier), cmp.Compare(a.ID, b.ID))
	})
	for _, x := range m.awaited {
		if !x.ask.IsZero() && !x.ask.After(now) && len(list) < limit {
			list = append(list, x.Awaited)
			x.ask = now.Add(pauseAfter(x.asked))
			x.asked++
		}
	}
	return oldestFirst(list), nil
}

// Answered implements Log.
func (m *Memory) Answered(ctx context.Context, send uuid.UUID) (err error) {
	_, lost, err := m.enter(ctx, "Answered")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	m.awaited = slices.DeleteFunc(m.awaited, func(x *memoryAwaited) bool { return x.Send == send })
	return nil
}
