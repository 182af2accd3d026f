package audit

import (
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

func bySMS(in *Intent) { in.Send.Channel, in.Verification.Channel = recipient.SMS, recipient.SMS }

func (f *fixture) receive(t *testing.T, id uuid.UUID, status Status, changes bool) {
	t.Helper()
	changed, err := f.replica.Receive(t.Context(), id, status)
	ok(t, err)
	equal(t, "changed", changed, changes)
}

// ended begins a text message and ends it.
func (f *fixture) ended(t *testing.T, n int, status Status) uuid.UUID {
	t.Helper()
	begun := f.admit(t, f.intent(n, bySMS))
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: status, Refund: status == Failed}, true)
	return begun.Send.ID
}

func receipts(t *testing.T, f *fixture) {
	for n, c := range []struct {
		outcome Status
		words   []Status
		want    Status
	}{
		{Sent, []Status{Delivered}, Delivered},
		{Sent, []Status{Undelivered}, Undelivered},
		{Unknown, []Status{Delivered}, Delivered},
		{Unknown, []Status{Undelivered}, Undelivered},
		{Sent, []Status{Undelivered, Delivered}, Delivered},
	} {
		id := f.ended(t, n+1, c.outcome)
		for _, word := range c.words {
			f.receive(t, id, word, true)
		}
		for _, late := range []Status{Delivered, Undelivered} { // repeated and late words
			if late != Delivered || c.want == Delivered {
				f.receive(t, id, late, false)
			}
		}
		row := f.row(t, id)
		equal(t, "status", row.Status, c.want)
		equal(t, "counts", row.Counts, true) // undelivered never refunds
		equal(t, "refund", row.RefundDue, false)
	}
	for status, want := range map[Status]int{Delivered: 3, Undelivered: 2, Sent: 0, Unknown: 0} {
		rows, err := f.Sends(t.Context(), Filter{Status: status, Limit: 10})
		ok(t, err)
		equal(t, string(status), len(rows), want)
	}
}

// The carrier may be quicker than the process that waits for its own write.
func receiptFirst(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1, bySMS))
	f.receive(t, begun.Send.ID, Delivered, true)
	equal(t, "before", f.row(t, begun.Send.ID).Status, Sending)
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Unknown, Reason: "no_answer"}, true)
	equal(t, "after", f.row(t, begun.Send.ID).Status, Delivered)
	f.receive(t, begun.Send.ID, Undelivered, false)
	equal(t, "at last", f.row(t, begun.Send.ID).Status, Delivered)
}

func receiptsForNothing(t *testing.T, f *fixture) {
	failed := f.ended(t, 1, Failed)
	f.receive(t, failed, Delivered, false)
	equal(t, "failed", f.row(t, failed).Status, Failed)
	mail := f.admit(t, f.intent(2))
	f.receive(t, mail.Send.ID, Delivered, false)
	f.finish(t, Outcome{Held: Held{mail.Send.ID, 1}, Status: Sent}, true)
	f.receive(t, mail.Send.ID, Delivered, false)
	equal(t, "a mail", f.row(t, mail.Send.ID).Status, Sent)
	f.receive(t, uuid.UUID{1}, Delivered, false)
	_, err := f.Receive(t.Context(), failed, Sent)
	is(t, err, ErrBadRequest)
}
