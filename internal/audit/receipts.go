package audit

import (
	"context"

	"github.com/google/uuid"
)

// What a carrier says afterwards changes a send that went out, or may have: to Delivered, or to Undelivered. It never goes
// back from there: a repeated or late word changes nothing, but that a message which was told to be lost did arrive after
// all. Whatever it is, the send keeps its place in the quota; and it proves nothing of who holds the phone.

func checkReceipt(status Status) error {
	if status != Delivered && status != Undelivered {
		return bad("a receipt says delivered or undelivered")
	}
	return nil
}

// Receive implements Log.
func (m *Memory) Receive(ctx context.Context, id uuid.UUID, status Status) (changed bool, err error) {
	if err := checkReceipt(status); err != nil {
		return false, err
	}
	_, lost, err := m.enter(ctx, "Receive")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	row, ok := m.rows[id]
	if !ok || row.Channel != "sms" || row.Status != Sending && row.Status != Sent && row.Status != Unknown && row.receipt == "" {
		return false, nil
	}
	if row.receipt != "" && (row.receipt != Undelivered || status != Delivered) {
		return false, nil
	}
	row.receipt = status
	row.received()
	return true, nil
}

// received brings status and receipt together, whichever came first.
func (r *memoryRow) received() {
	if r.receipt != "" && (r.Status == Sent || r.Status == Unknown || r.Status == Undelivered) {
		r.Status = r.receipt
	}
}
