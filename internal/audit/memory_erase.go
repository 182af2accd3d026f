package audit

import (
	"context"
	"maps"
	"slices"
	"time"

	"sendcode/internal/recipient"
)

// Erase implements Log.
func (m *Memory) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) (err error) {
	act, err = checkErased(h, keep, act)
	if err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Erase")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	for _, r := range m.rows {
		if r.Recipient == h && r.To != Erased {
			r.To, r.Country, r.Prefix, r.Reference, r.IP, r.Locale = Erased, "", "", "", "", ""
			if r.Status == Queued {
				r.Status, r.Reason, r.FinishedAt, r.DueAt = Failed, ReasonErased, now, time.Time{}
			}
		}
	}
	for _, v := range m.verifications {
		if v.Recipient == h && v.To != Erased {
			v.To, v.Sealed, v.Holder, v.Nonce, v.Locale, v.Reference = Erased, nil, "", []byte{}, "", ""
			if open(*v, now) {
				v.CanceledAt = now
			}
		}
	}
	for i := range m.acts {
		if m.acts[i].Recipient == h {
			m.acts[i].To = Erased
		}
	}
	for _, s := range m.suppressions {
		if s.Recipient == h && s.To != Erased {
			s.To, s.LiftedWhy = Erased, ""
			if s.Cause == Manual {
				s.Detail = ""
			}
		}
	}
	m.erasures[h] = now.Add(keep.Truncate(time.Microsecond))
	m.addAct(act, now)
	return nil
}

// Forget implements Log.
func (m *Memory) Forget(ctx context.Context) (n int, err error) {
	now, lost, err := m.enter(ctx, "Forget")
	if err != nil {
		return 0, err
	}
	defer m.leave(lost, &err)
	for h, at := range m.erasures {
		if at.After(now) {
			continue
		}
		delete(m.erasures, h)
		if until := m.forgetOne(h, now); !until.IsZero() {
			m.erasures[h] = until
		}
		n++
	}
	return n, nil
}

// forgetOne is how long a suppression still needs the hash, if any does.
func (m *Memory) forgetOne(h recipient.Hash, now time.Time) (until time.Time) {
	maps.DeleteFunc(m.embargoes, func(key embargoKey, e embargoed) bool { return key.recipient == h && !e.until.After(now) })
	for _, s := range m.suppressions {
		if s.Recipient != h || s.To != Erased {
			continue
		}
		if s.Active(now) {
			until = later(until, s.Until)
		} else {
			s.Recipient, s.Address = nobody, nobody
		}
	}
	for _, r := range m.rows {
		if r.Recipient == h && r.To == Erased {
			old := r.bucket()
			m.buckets[old] = slices.DeleteFunc(m.buckets[old], func(x *memoryRow) bool { return x == r })
			r.Recipient = nobody
			m.buckets[r.bucket()] = append(m.buckets[r.bucket()], r)
		}
	}
	for _, v := range m.verifications {
		if v.Recipient == h && v.To == Erased {
			v.Recipient = nobody
		}
	}
	for i := range m.acts {
		if m.acts[i].Recipient == h && m.acts[i].To == Erased {
			m.acts[i].Recipient = nobody
		}
	}
	return until
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
