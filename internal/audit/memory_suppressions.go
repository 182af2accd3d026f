package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Suppress implements Log.
func (m *Memory) Suppress(ctx context.Context, s Suppression, lasts time.Duration, act *Act) (out Suppression, added bool, err error) {
	s, act, err = s.checked(lasts, act)
	if err != nil {
		return s, false, err
	}
	now, lost, err := m.enter(ctx, "Suppress")
	if err != nil {
		return Suppression{}, false, err
	}
	defer m.leave(lost, &err)
	if act != nil {
		m.addAct(*act, now)
	}
	if old, ok := m.suppressions[s.ID]; ok {
		return *old, false, nil
	}
	s.Since, s.Until = now, now.Add(lasts.Truncate(time.Microsecond))
	m.suppressions[s.ID] = &s
	return s, true, nil
}

// bar is what Finish does of an outcome's Bar.
func (m *Memory) bar(o Outcome, row Send, now time.Time) {
	id := SuppressionID(row.ID, o.Bar.Cause)
	if o.Bar.For <= 0 || m.suppressions[id] != nil {
		return
	}
	m.suppressions[id] = &Suppression{
		ID: id, App: row.App, Channel: row.Channel, Address: o.Bar.Address, Recipient: row.Recipient, To: row.To, Cause: o.Bar.Cause,
		Detail: o.ProviderCode, Send: row.ID, Since: now, Until: now.Add(o.Bar.For),
	}
}

// suppressing is the suppression that an intent meets, the one that lasts longest; Nil: none.
func (m *Memory) suppressing(in Intent, now time.Time) uuid.UUID {
	var found *Suppression
	for _, s := range m.suppressions {
		if s.Active(now) && s.Address == in.Address && s.Channel == in.Send.Channel && (s.App == "" || s.App == in.Send.App) && (found == nil || outlasts(*s, *found)) {
			found = s
		}
	}
	if found == nil {
		return uuid.Nil
	}
	return found.ID
}

func outlasts(a, b Suppression) bool {
	return cmp.Or(a.Until.Compare(b.Until), slices.Compare(a.ID[:], b.ID[:])) > 0
}

// Suppressions implements Log.
func (m *Memory) Suppressions(ctx context.Context, f SuppressionFilter) (list []Suppression, now time.Time, err error) {
	if f, err = f.checked(); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "Suppressions")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	for _, s := range m.suppressions {
		if f.selects(*s, now) {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Suppression) int { return byTime(b.mark(), a.mark()) })
	return list[:min(f.Limit, len(list))], now, nil
}

func (s Suppression) mark() Mark { return Mark{At: s.Since, ID: s.ID} }

// byTime orders places in a list, the oldest first.
func byTime(a, b Mark) int { return cmp.Or(a.At.Compare(b.At), slices.Compare(a.ID[:], b.ID[:])) }

func (f SuppressionFilter) selects(s Suppression, now time.Time) bool {
	return (!f.Active || s.Active(now)) && (f.Recipient == nil || s.Recipient == *f.Recipient) && (f.Before == nil || byTime(s.mark(), *f.Before) < 0)
}

// Lift implements Log.
func (m *Memory) Lift(ctx context.Context, l Lifting, act *Act) (lifted []Suppression, err error) {
	l, act, err = l.checked(act)
	if err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "Lift")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, s := range m.suppressions {
		if s.Active(now) && s.Address == l.Address && s.Channel == l.Channel && (l.App == "" || s.App == l.App) {
			s.LiftedAt, s.LiftedBy, s.LiftedWhy = now, l.By, l.Why
			lifted = append(lifted, *s)
		}
	}
	slices.SortFunc(lifted, func(a, b Suppression) int { return byTime(a.mark(), b.mark()) })
	if act != nil {
		m.addAct(liftedAs(*act, lifted), now)
	}
	return lifted, nil
}

// expireSuppressions lets go of the oldest that ended before an instant.
func (m *Memory) expireSuppressions(before time.Time, limit int) {
	var over []Suppression
	for _, s := range m.suppressions {
		if s.Since.Before(before) && s.Until.Before(before) {
			over = append(over, *s)
		}
	}
	slices.SortFunc(over, func(a, b Suppression) int { return byTime(a.mark(), b.mark()) })
	for _, s := range over[:min(limit, len(over))] {
		delete(m.suppressions, s.ID)
	}
}

// suppressionsOf are those that stopped a row or came of it, the oldest first.
func (m *Memory) suppressionsOf(row Send) (list []Suppression) {
	for _, id := range suppressionsOf(row) {
		if s, ok := m.suppressions[id]; ok {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Suppression) int { return byTime(a.mark(), b.mark()) })
	return list
}
