package audit

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Verification implements Log.
func (m *Memory) Verification(ctx context.Context, id string) (v Verification, newest Send, now time.Time, err error) {
	now, lost, err := m.enter(ctx, "Verification")
	if err != nil {
		return v, newest, now, err
	}
	defer m.leave(lost, &err)
	if _, ok := m.verifications[id]; !ok {
		return v, newest, now, ErrNotFound
	}
	for _, row := range m.rows {
		if row.VerificationID == id && row.Status != Refused && row.Number > newest.Number {
			newest = row.Send
		}
	}
	return m.verification(id), newest, now, nil
}

// Sends implements Log.
func (m *Memory) Sends(ctx context.Context, filter Filter) (rows []Send, err error) {
	filter, err = filter.checked()
	if err != nil {
		return nil, err
	}
	_, lost, err := m.enter(ctx, "Sends")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, row := range m.rows {
		if filter.Selects(row.Send) {
			rows = append(rows, row.Send)
		}
	}
	slices.SortFunc(rows, func(a, b Send) int { return byLogged(b, a) })
	if filter.After != nil {
		return rows[max(0, len(rows)-filter.Limit):], nil
	}
	return rows[:min(filter.Limit, len(rows))], nil
}

// Selects says whether s is one of the rows that f selects, but for its length.
func (f Filter) Selects(s Send) bool {
	switch {
	case f.Recipient != nil && s.Recipient != *f.Recipient,
		f.Status != "" && s.Status != f.Status,
		f.Channel != "" && s.Channel != f.Channel,
		f.Purpose != "" && s.Purpose != f.Purpose,
		f.App != "" && s.App != f.App,
		f.BlockedBy != "" && s.BlockedBy != f.BlockedBy,
		f.Reference != "" && s.Reference != f.Reference,
		f.Provider != "" && s.Provider != f.Provider,
		f.Country != "" && s.Country != f.Country,
		f.Support != "" && !sharesReference(s.ID, f.Support),
		f.Domain != "" && recipient.DomainOf(s.To) != f.Domain,
		!f.From.IsZero() && s.LoggedAt.Before(f.From),
		!f.To.IsZero() && !s.LoggedAt.Before(f.To),
		f.Before != nil && byLogged(s, Send{ID: f.Before.ID, LoggedAt: f.Before.At}) >= 0,
		f.After != nil && byLogged(s, Send{ID: f.After.ID, LoggedAt: f.After.At}) <= 0:
		return false
	}
	return true
}

// Referenced implements Log.
func (m *Memory) Referenced(ctx context.Context, support string) (rows []Send, err error) {
	r, ok := readReference(support)
	if !ok {
		return nil, nil
	}
	_, lost, err := m.enter(ctx, "Referenced")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, row := range m.rows {
		rows = append(rows, row.Send)
	}
	slices.SortFunc(rows, func(a, b Send) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return r.of(rows), nil
}

// Story implements Log.
func (m *Memory) Story(ctx context.Context, id uuid.UUID) (story Story, err error) {
	now, lost, err := m.enter(ctx, "Story")
	if err != nil {
		return Story{}, err
	}
	defer m.leave(lost, &err)
	row, ok := m.rows[id]
	if !ok {
		return Story{}, ErrNotFound
	}
	story = Story{Send: row.Send, Suppressions: m.suppressionsOf(row.Send), Events: m.eventsOf(id), Pause: m.pauseOf(row.Send), Now: now}
	v := m.verification(row.VerificationID)
	if v.ID == "" {
		return story, nil
	}
	story.Verification = &v
	for _, r := range m.buckets[memoryBucket{v.App, v.Channel, v.Recipient}] {
		during := v.Recipient != nobody && !r.LoggedAt.Before(v.CreatedAt) && r.LoggedAt.Before(v.ExpiresAt)
		if r.Status == Refused && during || r.Status != Refused && r.VerificationID == v.ID {
			story.Related = append(story.Related, r.Send)
		}
	}
	slices.SortFunc(story.Related, byLogged)
	story.Related = story.Related[:min(maxRelated, len(story.Related))]
	return story, nil
}

// Counting implements Log.
func (m *Memory) Counting(ctx context.Context, clock string, within time.Duration, yield func(Counting) error) error {
	rows, err := m.counting(ctx, within)
	if err != nil {
		return err
	}
	for _, s := range rows {
		if err := yield(counting(s, clock)); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) counting(ctx context.Context, within time.Duration) (rows []Send, err error) {
	now, lost, err := m.enter(ctx, "Counting")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, row := range m.rows {
		if row.Counts && now.Sub(row.LoggedAt) < within.Truncate(time.Microsecond) {
			rows = append(rows, row.Send)
		}
	}
	slices.SortFunc(rows, byLogged)
	return rows, nil
}

// counting is a row as a limiter on clock reads it.
func counting(s Send, clock string) Counting {
	c := Counting{App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, Clock: LogClock}
	c.Event = quota.Event{ID: string(s.ID[:]), At: s.LoggedAt}
	if s.Clock == clock {
		c.Event.At, c.Clock = s.TakenAt, clock
	}
	return c
}
