package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// tell notes an event of row, or of v where there is no row.
func (m *Memory) tell(t Tell, e AppEvent, now time.Time) {
	if t.Type == "" {
		return
	}
	e.ID, e.Type, e.Test = t.ID, t.Type, t.Test
	e.At, e.State, e.DueAt = now, EventPending, now
	m.events[t.ID] = &e
}

// completed is a copy with what the send or the verification says now.
func (m *Memory) completed(e AppEvent) AppEvent {
	if row, ok := m.rows[e.SendID]; ok {
		e.Channel, e.Purpose, e.To, e.Reference = row.Channel, row.Purpose, row.To, row.Reference
	} else if v, ok := m.verifications[e.VerificationID]; ok {
		e.Channel, e.Purpose, e.To, e.Reference = v.Channel, v.Purpose, v.To, v.Reference
	}
	return e
}

// AppEventsDue implements AppEvents.
func (m *Memory) AppEventsDue(ctx context.Context, lease time.Duration, shares []Share) (events []AppEvent, now time.Time, err error) {
	if err := checkShares(lease, shares); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "AppEventsDue")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	for _, share := range shares {
		var due []*AppEvent
		for _, e := range m.events {
			if e.App == share.App && e.State == EventPending && !e.DueAt.After(now) {
				due = append(due, e)
			}
		}
		slices.SortFunc(due, func(a, b *AppEvent) int { return cmp.Or(a.DueAt.Compare(b.DueAt), byID(*a, *b)) })
		for _, e := range due[:min(share.Limit, len(due))] {
			e.Attempt, e.DueAt = e.Attempt+1, now.Add(lease.Truncate(time.Microsecond))
			events = append(events, m.completed(*e))
		}
	}
	slices.SortFunc(events, byID)
	return events, now, nil
}

func byID(a, b AppEvent) int { return slices.Compare(a.ID[:], b.ID[:]) }

// AppEventEnded implements AppEvents.
func (m *Memory) AppEventEnded(ctx context.Context, end AppEventEnd) (ok bool, err error) {
	if end, err = end.checked(); err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "AppEventEnded")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	e, found := m.events[end.ID]
	if !found || e.Attempt != end.Attempt || e.State != EventPending {
		return false, nil
	}
	e.State, e.Answer = end.State, end.Answer
	e.DueAt, e.EndedAt = now.Add(end.After.Truncate(time.Microsecond)), time.Time{}
	if end.State != EventPending {
		e.DueAt, e.EndedAt = time.Time{}, now
	}
	return true, nil
}

// ForgetAppEvents implements AppEvents.
func (m *Memory) ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error) {
	if err := checkLease(keep, limit); err != nil {
		return 0, 0, err
	}
	now, lost, err := m.enter(ctx, "ForgetAppEvents")
	if err != nil {
		return 0, 0, err
	}
	defer m.leave(lost, &err)
	before := now.Add(-keep)
	ended := m.oldest(func(e *AppEvent) bool { return e.State != EventPending && e.EndedAt.Before(before) }, limit)
	for _, e := range ended {
		delete(m.events, e.ID)
	}
	abandoned := m.oldest(func(e *AppEvent) bool { return e.State == EventPending && e.At.Before(before) }, limit)
	for _, e := range abandoned {
		e.State, e.DueAt, e.EndedAt = EventGivenUp, time.Time{}, now
	}
	return len(ended), len(abandoned), nil
}

// oldest are those that ended first, or happened first.
func (m *Memory) oldest(wanted func(*AppEvent) bool, limit int) []*AppEvent {
	var list []*AppEvent
	for _, e := range m.events {
		if wanted(e) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *AppEvent) int {
		since := func(e *AppEvent) time.Time {
			if e.State == EventPending {
				return e.At
			}
			return e.EndedAt
		}
		return cmp.Or(since(a).Compare(since(b)), byID(*a, *b))
	})
	return list[:min(limit, len(list))]
}

// AppEvents implements AppEvents.
func (m *Memory) AppEvents(ctx context.Context, f AppEventFilter) (events []AppEvent, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	_, lost, err := m.enter(ctx, "AppEvents")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, e := range m.events {
		older := f.Before == uuid.Nil || slices.Compare(e.ID[:], f.Before[:]) < 0
		if older && (f.App == "" || f.App == e.App) && (f.State == "" || f.State == e.State) {
			events = append(events, m.completed(*e))
		}
	}
	slices.SortFunc(events, func(a, b AppEvent) int { return byID(b, a) })
	return events[:min(f.Limit, len(events))], nil
}
