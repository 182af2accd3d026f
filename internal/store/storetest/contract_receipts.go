package storetest

import (
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func bySMS(in *store.Intent) { in.Send.Channel, in.Verification.Channel = recipient.SMS, recipient.SMS }

func (f *Fixture) receiveReceipt(t *testing.T, id uuid.UUID, status store.Status, changes bool) {
	t.Helper()
	Equal(t, "changed", Must(f.Replica.Receive(t.Context(), id, status))(t), changes)
}

// finishedText begins a text message and ends it.
func (f *Fixture) finishedText(t *testing.T, n int, status store.Status) uuid.UUID {
	t.Helper()
	begun := f.Ended(t, f.Intent(n, bySMS), store.Outcome{Status: status, Refund: status == store.Failed})
	return begun.Send.ID
}

func receipts(t *testing.T, f *Fixture) {
	for n, c := range []struct {
		outcome store.Status
		words   []store.Status
		want    store.Status
	}{
		{store.Sent, []store.Status{store.Delivered}, store.Delivered},
		{store.Sent, []store.Status{store.Undelivered}, store.Undelivered},
		{store.Unknown, []store.Status{store.Delivered}, store.Delivered},
		{store.Unknown, []store.Status{store.Undelivered}, store.Undelivered},
		{store.Sent, []store.Status{store.Undelivered, store.Delivered}, store.Delivered},
	} {
		id := f.finishedText(t, n+1, c.outcome)
		for _, word := range c.words {
			f.receiveReceipt(t, id, word, true)
		}
		for _, late := range []store.Status{store.Delivered, store.Undelivered} { // repeated and late words
			if late != store.Delivered || c.want == store.Delivered {
				f.receiveReceipt(t, id, late, false)
			}
		}
		row := f.Row(t, id)
		Equal(t, "status", row.Status, c.want)
		Equal(t, "counts", row.Counts, true) // undelivered never refunds
		Equal(t, "refund", row.RefundDue, false)
	}
	for status, want := range map[store.Status]int{store.Delivered: 3, store.Undelivered: 2, store.Sent: 0, store.Unknown: 0} {
		Equal(t, string(status), len(Must(f.Sends(t.Context(), store.Filter{Status: status, Limit: 10}))(t)), want)
	}
}

// The carrier may be quicker than the process that waits for its own write.
func receiptFirst(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1, bySMS))
	f.receiveReceipt(t, begun.Send.ID, store.Delivered, true)
	Equal(t, "before", f.Row(t, begun.Send.ID).Status, store.Sending)
	f.End(t, begun.Send.ID, store.Outcome{Status: store.Unknown, Reason: "no_answer"})
	Equal(t, "after", f.Row(t, begun.Send.ID).Status, store.Delivered)
	f.receiveReceipt(t, begun.Send.ID, store.Undelivered, false)
	Equal(t, "at last", f.Row(t, begun.Send.ID).Status, store.Delivered)
}

func receiptsForNothing(t *testing.T, f *Fixture) {
	failed := f.finishedText(t, 1, store.Failed)
	f.receiveReceipt(t, failed, store.Delivered, false)
	Equal(t, "failed", f.Row(t, failed).Status, store.Failed)
	mail := f.Admit(t, f.Intent(2))
	f.receiveReceipt(t, mail.Send.ID, store.Delivered, false)
	f.End(t, mail.Send.ID, Sent)
	f.receiveReceipt(t, mail.Send.ID, store.Delivered, false)
	Equal(t, "a mail", f.Row(t, mail.Send.ID).Status, store.Sent)
	f.receiveReceipt(t, uuid.UUID{1}, store.Delivered, false)
}
