package audit

import (
	"context"
	"slices"
	"time"
)

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
	if err := drifted(in.Send.ID, now); err != nil {
		return Begun{}, err
	}
	r := decide(in, now, seen{m.past(in), m.rejections(in.Send.bucket()), m.candidates(in), m.tried(in.Verification), m.suppressing(in, now)})
	if r.Admitted {
		v := r.Verification
		m.verifications[v.ID] = &v
		m.add(&memoryRow{Send: r.Send})
		r.Verification = m.verification(v.ID)
	}
	return r.Begun, nil
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

func (m *Memory) candidates(in Intent) (list []Verification) {
	for _, v := range m.verifications {
		if v.Recipient == in.Send.Recipient {
			list = append(list, *v)
		}
	}
	return list
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
	ok = pending(*stored, now) && m.lockout(*stored, now).Wait == 0
	if ok {
		stored.Attempts++
	}
	return m.verification(id), ok, now, nil
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
		r.ID = timely(r.ID, now)
		old, ok := m.rows[r.ID]
		switch {
		case !ok:
			r.LoggedAt, r.FinishedAt = now, now
			if r.Clock == LogClock {
				r.TakenAt = now
			}
			m.add(&memoryRow{Send: r})
		case old.Status == Refused:
			old.Count, old.RetryAfter, old.Recipients = old.Count+r.Count, r.RetryAfter, max(old.Recipients, r.Recipients)
		}
	}
	return nil
}
