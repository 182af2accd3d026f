package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sendcode/internal/recipient"
)

// holding finds the row that held speaks for, while it is in flight.
func (m *Memory) holding(held Held) (*memoryRow, bool) {
	row, ok := m.rows[held.ID]
	return row, ok && row.Attempt == held.Attempt && row.Status.InFlight()
}

// Renew implements Log.
func (m *Memory) Renew(ctx context.Context, lease time.Duration, held []Held) (err error) {
	if err := checkLease(lease, 1); err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Renew")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	for _, h := range held {
		if row, ok := m.holding(h); ok && row.Status == Sending {
			row.DueAt = now.Add(lease.Truncate(time.Microsecond))
		}
	}
	return nil
}

// Finish implements Log.
func (m *Memory) Finish(ctx context.Context, outcome Outcome) (ok bool, err error) {
	o, err := outcome.checked()
	if err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "Finish")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	row, ok := m.holding(o.Held)
	if !ok {
		return false, nil
	}
	row.Status, row.Reason, row.Provider, row.ProviderCode, row.Took = o.Status, o.Reason, o.Provider, o.ProviderCode, o.Took
	row.FinishedAt, row.DueAt = now, time.Time{}
	m.bar(o, row.Send, now)
	if o.Refund && !row.InDoubt {
		row.Counts, row.RefundDue, row.refundSince = false, true, now
	}
	m.tell(o.Tell, AppEvent{App: row.App, SendID: row.ID, VerificationID: row.VerificationID, Status: string(row.Status), Reason: row.Reason}, now)
	row.received()
	return true, nil
}

// Postpone implements Log.
func (m *Memory) Postpone(ctx context.Context, p Postponement) (ok bool, err error) {
	p, err = p.checked()
	if err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "Postpone")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	row, ok := m.holding(p.Held)
	if !ok {
		return false, nil
	}
	row.Status, row.Reason, row.Provider, row.ProviderCode = Queued, p.Reason, p.Provider, p.ProviderCode
	row.DueAt = now.Add(p.After.Truncate(time.Microsecond))
	return true, nil
}

// TakeOver implements Log.
func (m *Memory) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) (work []Work, err error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "TakeOver")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	due := m.matching(func(r *memoryRow) bool { return r.Channel == ch && r.Status.InFlight() && !r.DueAt.After(now) })
	slices.SortFunc(due, func(a, b *memoryRow) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, row := range due[:min(limit, len(due))] {
		row.InDoubt = row.InDoubt || row.Status == Sending
		row.Status, row.Attempt, row.DueAt = Sending, row.Attempt+1, now.Add(lease.Truncate(time.Microsecond))
		work = append(work, Work{Send: row.Send, Verification: m.verification(row.VerificationID)})
	}
	return work, nil
}

// RefundsDue implements Log.
func (m *Memory) RefundsDue(ctx context.Context, lease time.Duration, limit int) (refunds []Refund, err error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "RefundsDue")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	due := m.matching(func(r *memoryRow) bool {
		return r.RefundDue && !r.refundSince.Add(lease.Truncate(time.Microsecond)).After(now)
	})
	slices.SortFunc(due, func(a, b *memoryRow) int {
		return cmp.Or(a.refundSince.Compare(b.refundSince), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, row := range due[:min(limit, len(due))] {
		row.refundSince = now
		refunds = append(refunds, Refund{
			Held: Held{row.ID, row.Attempt}, App: row.App, Channel: row.Channel, Purpose: row.Purpose, Recipient: row.Recipient,
		})
	}
	return refunds, nil
}

// Refunded implements Log.
func (m *Memory) Refunded(ctx context.Context, held Held) (err error) {
	_, lost, err := m.enter(ctx, "Refunded")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	if row, ok := m.rows[held.ID]; ok && row.Attempt == held.Attempt {
		row.RefundDue = false
	}
	return nil
}

func (m *Memory) matching(wanted func(*memoryRow) bool) []*memoryRow {
	var rows []*memoryRow
	for _, row := range m.rows {
		if wanted(row) {
			rows = append(rows, row)
		}
	}
	return rows
}
