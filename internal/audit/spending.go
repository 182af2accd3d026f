package audit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Charge is what a text message would cost an account.
type Charge struct {
	Account string       // what a cap looks at, named by the caller
	Per     quota.Period // quota.Day or quota.Month, in UTC on the log's clock
	Amount  int64        // millionths of the currency, not negative
	Limit   int64        // which Used may reach in one period
}

// Spent is a charge that was made.
type Spent struct {
	Charge
	Period string // the first day of its period, "2006-01-02"
	Used   int64  // in that period, with this charge
}

// Embargo keeps messages from a recipient for a while, as a carrier told.
type Embargo struct {
	Left  time.Duration // 0: there is none
	Whole time.Duration
}

func checkedCharges(charges []Charge) ([]Charge, error) {
	charges = slices.Clone(charges)
	for _, c := range charges {
		if c.Account == "" || c.Amount < 0 || c.Limit < 0 || c.Per != quota.Day && c.Per != quota.Month {
			return nil, bad("a charge without an account, of less than nothing, or for no day or month")
		}
	}
	// All callers go through accounts in one order, so that none waits for the other in a circle.
	slices.SortStableFunc(charges, func(a, b Charge) int { return strings.Compare(a.Account, b.Account) })
	for i := 1; i < len(charges); i++ {
		if charges[i].Account == charges[i-1].Account {
			return nil, bad("an account that is charged twice")
		}
	}
	return charges, nil
}

// period is the first day of the period that t lies in.
func period(per quota.Period, t time.Time) string {
	t = t.UTC()
	if per == quota.Month {
		t = t.AddDate(0, 0, 1-t.Day())
	}
	return t.Format(time.DateOnly)
}

func checkEmbargo(lasts time.Duration) error {
	if lasts < time.Second || lasts > maxEmbargo {
		return bad("an embargo lasts from a second to 31 days")
	}
	return nil
}

const maxEmbargo = 31 * 24 * time.Hour

type (
	accountKey struct{ account, period string }
	embargoKey struct {
		channel   recipient.Channel
		recipient recipient.Hash
	}
	embargoed struct{ since, until time.Time }
)

// Spend implements Log.
func (m *Memory) Spend(ctx context.Context, charges []Charge) (spent []Spent, refusedBy string, err error) {
	charges, err = checkedCharges(charges)
	if err != nil {
		return nil, "", err
	}
	now, lost, err := m.enter(ctx, "Spend")
	if err != nil {
		return nil, "", err
	}
	defer m.leave(lost, &err)
	for _, c := range charges {
		key := accountKey{c.Account, period(c.Per, now)}
		if used := m.spending[key] + c.Amount; used <= c.Limit {
			spent = append(spent, Spent{c, key.period, used})
			continue
		}
		return nil, c.Account, nil
	}
	for _, s := range spent {
		m.spending[accountKey{s.Account, s.Period}] = s.Used
	}
	return spent, "", nil
}

// Unspend implements Log.
func (m *Memory) Unspend(ctx context.Context, spent []Spent) (err error) {
	_, lost, err := m.enter(ctx, "Unspend")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	for _, s := range spent {
		key := accountKey{s.Account, s.Period}
		if used, ok := m.spending[key]; ok {
			m.spending[key] = max(0, used-s.Amount)
		}
	}
	return nil
}

// Embargo implements Log.
func (m *Memory) Embargo(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) (err error) {
	if err := checkEmbargo(lasts); err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Embargo")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	key := embargoKey{ch, h}
	if until := now.Add(lasts.Truncate(time.Microsecond)); until.After(m.embargoes[key].until) {
		m.embargoes[key] = embargoed{now, until}
	}
	return nil
}

// Embargoed implements Log.
func (m *Memory) Embargoed(ctx context.Context, ch recipient.Channel, h recipient.Hash) (e Embargo, err error) {
	now, lost, err := m.enter(ctx, "Embargoed")
	if err != nil {
		return Embargo{}, err
	}
	defer m.leave(lost, &err)
	return m.embargoes[embargoKey{ch, h}].at(now), nil
}

func (e embargoed) at(now time.Time) Embargo {
	if !now.Before(e.until) {
		return Embargo{}
	}
	return Embargo{Left: e.until.Sub(now), Whole: e.until.Sub(e.since)}
}

// errOverCap rolls a transaction back that would pass a cap.
var errOverCap = errors.New("audit: a cap would be passed")

// spending is the answer of Spend once its transaction has ended.
func spending(spent []Spent, refusedBy string, err error) ([]Spent, string, error) {
	switch {
	case refusedBy != "" && errors.Is(err, errOverCap):
		return nil, refusedBy, nil
	case err != nil:
		return nil, "", err
	}
	return spent, "", nil
}
