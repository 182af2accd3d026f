package audit

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// memoryBook is a watchBook over a log in memory, which is locked.
type memoryBook struct{ *Memory }

// wentTo are the text messages that went out in (from, to], the newest first.
func (b memoryBook) wentTo(from, to time.Time) []*memoryRow {
	rows := b.matching(func(r *memoryRow) bool {
		out := r.Prefix != "" && (r.Status.taken() || r.Status == Unknown) && (r.Provider != "test" || r.ProviderCode != "")
		return out && r.LoggedAt.After(from) && !r.LoggedAt.After(to) && b.verifications[r.VerificationID] != nil
	})
	slices.SortFunc(rows, func(a, b *memoryRow) int { return byLogged(b.Send, a.Send) })
	return rows
}

func (b memoryBook) count(c *conversion, r *memoryRow) {
	c.sends++
	if !b.verifications[r.VerificationID].ApprovedAt.IsZero() {
		c.approved++
	}
}

func (b memoryBook) poor(w Watch, from, to time.Time) (all []conversion, err error) {
	by := map[[2]string]*conversion{}
	for _, r := range b.wentTo(from, to) {
		if slices.ContainsFunc(b.prefixPauses, func(p PrefixPause) bool {
			return p.App == r.App && p.Prefix == r.Prefix && !p.End().Before(r.LoggedAt)
		}) {
			continue
		}
		key := [2]string{r.App, r.Prefix}
		if by[key] == nil {
			by[key] = &conversion{app: r.App, prefix: r.Prefix}
		}
		by[key].country = max(by[key].country, r.Country)
		b.count(by[key], r)
	}
	for _, c := range by {
		if c.sends >= w.Sends && 100*c.approved < w.Percent*c.sends {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b conversion) int {
		return cmp.Or(b.sends-a.sends, cmp.Compare(a.app, b.app), cmp.Compare(a.prefix, b.prefix))
	})
	return all[:min(maxStarted, len(all))], nil
}

func (b memoryBook) share(app, country, prefix string, from, to time.Time) (c conversion, err error) {
	for _, r := range b.wentTo(from, to) {
		if r.App == app && r.Prefix != prefix && (country == "" || r.Country == country) && c.sends < usualSends {
			b.count(&c, r)
		}
	}
	return c, nil
}

func (b memoryBook) paused(app, prefix string, after time.Time) (n int, err error) {
	for _, p := range b.prefixPauses {
		if p.App == app && p.Prefix == prefix && p.Since.After(after) && p.LiftedAt.IsZero() {
			n++
		}
	}
	return n, nil
}

func (b memoryBook) pause(p PrefixPause) error {
	b.prefixPauses = append(b.prefixPauses, p)
	return nil
}

// Watch implements Log.
func (m *Memory) Watch(ctx context.Context, w Watch) (started []PrefixPause, err error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "Watch")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	return w.watch(now, memoryBook{m})
}

// PrefixPaused implements Log.
func (m *Memory) PrefixPaused(ctx context.Context, app, prefix string) (p PrefixPause, found bool, err error) {
	now, lost, err := m.enter(ctx, "PrefixPaused")
	if err != nil {
		return p, false, err
	}
	defer m.leave(lost, &err)
	i := slices.IndexFunc(m.prefixPauses, func(p PrefixPause) bool { return p.App == app && p.Prefix == prefix && p.Active(now) })
	if i < 0 {
		return p, false, nil
	}
	return m.prefixPauses[i], true, nil
}

// PrefixPauses implements Log.
func (m *Memory) PrefixPauses(ctx context.Context, f PrefixPauseFilter) (list []PrefixPause, now time.Time, err error) {
	if f, err = f.checked(); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "PrefixPauses")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	for _, p := range m.prefixPauses {
		if (!f.Active || p.Active(now)) && (f.Before == nil || byTime(p.mark(), *f.Before) < 0) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b PrefixPause) int { return byTime(b.mark(), a.mark()) })
	return list[:min(f.Limit, len(list))], now, nil
}

func (p PrefixPause) mark() Mark { return Mark{At: p.Since, ID: p.ID} }

// LiftPrefix implements Log.
func (m *Memory) LiftPrefix(ctx context.Context, l PrefixLifting, act *Act) (lifted PrefixPause, done bool, err error) {
	l, act, err = l.checked(act)
	if err != nil {
		return PrefixPause{}, false, err
	}
	now, lost, err := m.enter(ctx, "LiftPrefix")
	if err != nil {
		return PrefixPause{}, false, err
	}
	defer m.leave(lost, &err)
	i := slices.IndexFunc(m.prefixPauses, func(p PrefixPause) bool { return p.ID == l.ID })
	if i < 0 {
		return PrefixPause{}, false, ErrNotFound
	}
	p := &m.prefixPauses[i]
	if !p.Active(now) {
		return *p, false, nil
	}
	p.LiftedAt, p.LiftedBy, p.LiftedWhy = now, l.By, l.Why
	if act != nil {
		m.addAct(p.lifted(*act), now)
	}
	return *p, true, nil
}

// pauseOf is what held for a send when it ended.
func (m *Memory) pauseOf(s Send) *PrefixPause {
	for _, p := range slices.Backward(m.prefixPauses) {
		if s.untried() && p.App == s.App && p.Prefix == s.Prefix && !p.Since.After(s.FinishedAt) && !p.End().Before(s.FinishedAt) {
			return &p
		}
	}
	return nil
}

// Turn implements Log.
func (m *Memory) Turn(ctx context.Context, name string, lasts time.Duration) (mine bool, err error) {
	if err := checkTurn(name, lasts); err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "Turn")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	if now.Before(m.turns[name]) {
		return false, nil
	}
	m.turns[name] = now.Add(lasts.Truncate(time.Microsecond))
	return true, nil
}
