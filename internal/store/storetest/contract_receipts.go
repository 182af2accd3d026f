package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

func bySMS(in *store.Intent) { in.Send.Channel, in.Verification.Channel = recipient.SMS, recipient.SMS }

func (f *Fixture) receiveReceipt(t *testing.T, id uuid.UUID, status store.Status, changes bool) {
	t.Helper()
	Equal(t, "changed", Must(f.Replica.RecordReceipt(t.Context(), id, status))(t), changes)
}

func (f *Fixture) finishedText(t *testing.T, n int, status store.Status) uuid.UUID {
	t.Helper()
	begun := f.Ended(t, f.Intent(n, bySMS), store.Outcome{Status: status, Refund: status == store.Failed})
	return begun.Send.ID
}

func receipts(t *testing.T, f *Fixture) {
	for n, c := range []struct {
		outcome  store.Status
		statuses []store.Status
		want     store.Status
	}{
		{store.Sent, []store.Status{store.Delivered}, store.Delivered},
		{store.Sent, []store.Status{store.Undelivered}, store.Undelivered},
		{store.Unknown, []store.Status{store.Delivered}, store.Delivered},
		{store.Unknown, []store.Status{store.Undelivered}, store.Undelivered},
		{store.Sent, []store.Status{store.Undelivered, store.Delivered}, store.Delivered},
	} {
		id := f.finishedText(t, n+1, c.outcome)
		for _, status := range c.statuses {
			f.receiveReceipt(t, id, status, true)
		}
		for _, late := range []store.Status{store.Delivered, store.Undelivered} { // repeated and late receipts
			if late != store.Delivered || c.want == store.Delivered {
				f.receiveReceipt(t, id, late, false)
			}
		}
		row := f.Row(t, id)
		// an undelivered message is never refunded
		Equal(t, "status, counts, refund due", []any{row.Status, row.Counts, row.RefundDue}, []any{c.want, true, false})
	}
	for _, none := range []uuid.UUID{f.finishedText(t, 8, store.Failed), f.Ended(t, f.Intent(9), Sent).Send.ID, {1}} {
		f.receiveReceipt(t, none, store.Delivered, false)
	}
	for status, want := range map[store.Status]int{store.Delivered: 3, store.Undelivered: 2, store.Sent: 1, store.Unknown: 0} {
		Equal(t, string(status), len(Must(f.Sends(t.Context(), store.Filter{Status: status, Limit: 10}))(t)), want)
	}
}

// receiptFirst records a receipt before the outcome: the carrier may be faster than the process
// that still writes the outcome.
func receiptFirst(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1, bySMS))
	f.receiveReceipt(t, begun.Send.ID, store.Delivered, true)
	Equal(t, "before", f.Row(t, begun.Send.ID).Status, store.Sending)
	f.End(t, begun.Send.ID, store.Outcome{Status: store.Unknown, Reason: "no_answer"})
	Equal(t, "after", f.Row(t, begun.Send.ID).Status, store.Delivered)
	f.receiveReceipt(t, begun.Send.ID, store.Undelivered, false)
	Equal(t, "at last", f.Row(t, begun.Send.ID).Status, store.Delivered)

	// A send that waits cannot have a receipt, unless an earlier attempt ended without an outcome:
	// that attempt may have sent the message.
	waiting := f.Admit(t, f.Intent(2, bySMS)).Send.ID
	for _, attempt := range []int{1, 3} {
		Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(waiting, attempt)}))(t), true)
		f.receiveReceipt(t, waiting, store.Delivered, attempt == 3)
		for range 2 {
			Must(f.TakeOver(t.Context(), store.Queue{Channel: recipient.SMS}, time.Second, 1))(t)
			f.Pass(time.Second)
		}
	}
}

func pendingReceipt(n int) store.PendingReceipt {
	return store.PendingReceipt{Carrier: "c", ID: fmt.Sprint("m", n), Send: uuid.UUID{1, byte(n), 6: 0x70, 8: 0x80}}
}

func (f *Fixture) duePolls(t *testing.T, limit int) (ids []string) {
	t.Helper()
	list := Must(f.TakeDuePolls(t.Context(), limit))(t)
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

// pollsBackOffAndEnd checks the polls for a receipt: the first after the given time, the next 30 s
// later, then after pauses that double up to 6 hours, until there is an answer or three days have
// passed.
func pollsBackOffAndEnd(t *testing.T, f *Fixture) {
	a := pendingReceipt(1)
	OK(t, f.ExpectReceipt(t.Context(), a, 10*time.Second))
	a.At = f.Now
	// adding it twice changes nothing
	OK(t, f.ExpectReceipt(t.Context(), store.PendingReceipt{Carrier: a.Carrier, ID: a.ID, Send: uuid.UUID{9}}, time.Second))
	OK(t, f.ExpectReceipt(t.Context(), pendingReceipt(2), 0))
	f.Pass(10*time.Second - time.Microsecond)
	Equal(t, "too early", f.duePolls(t, 9), nil)
	f.Pass(time.Microsecond)
	Equal(t, "in time", Must(f.TakeDuePolls(t.Context(), 9))(t), []store.PendingReceipt{a})
	for n := range 14 {
		f.Pass(min(30*time.Second<<n, 6*time.Hour) - time.Microsecond)
		Equal(t, fmt.Sprint("before inquiry ", n), f.duePolls(t, 9), nil)
		f.Pass(time.Microsecond)
		Equal(t, fmt.Sprint("inquiry ", n), f.duePolls(t, 9), []string{"m1"})
	}
	for n, want := range []uuid.UUID{a.Send, pendingReceipt(2).Send} {
		Equal(t, "send", Must(f.Replica.SendByMessageID(t.Context(), "c", fmt.Sprint("m", n+1)))(t), want)
	}
	for _, other := range [][2]string{{"c", "m3"}, {"d", "m1"}} {
		Is(t, Err(f.SendByMessageID(t.Context(), other[0], other[1])), fault.NotFound)
	}
	OK(t, f.StopAwaitingReceipt(t.Context(), "d", a.Send))
	Equal(t, "another carrier's", Must(f.SendByMessageID(t.Context(), "c", "m1"))(t), a.Send)
	OK(t, f.StopAwaitingReceipt(t.Context(), "c", a.Send))
	OK(t, f.StopAwaitingReceipt(t.Context(), "c", a.Send))
	Is(t, Err(f.SendByMessageID(t.Context(), "c", "m1")), fault.NotFound)
	f.Pass(72 * time.Hour)
	Equal(t, "given up", f.duePolls(t, 9), nil)
	Is(t, Err(f.SendByMessageID(t.Context(), "c", "m2")), fault.NotFound)
}

// duePollsShared checks that replicas which poll at once share the messages, the longest overdue
// first.
func duePollsShared(t *testing.T, f *Fixture) {
	for n := range 40 {
		OK(t, f.ExpectReceipt(t.Context(), pendingReceipt(n), time.Duration(50-n)*time.Second))
	}
	f.Pass(11 * time.Second)
	Equal(t, "first", f.duePolls(t, 9), []string{"m39"})
	f.Pass(39 * time.Second)
	eachOnce(t, f, 40, func(db *sqldb.DB) (ids []string, err error) {
		list, err := db.TakeDuePolls(t.Context(), 3)
		for _, p := range list {
			ids = append(ids, p.ID)
		}
		return ids, err
	})
}

func (f *Fixture) ingest(t *testing.T, want bool, e store.ProviderEvent, suppress ...store.NewSuppression) {
	t.Helper()
	Equal(t, "recorded", Must(f.IngestProviderEvent(t.Context(), e, append(suppress, store.NewSuppression{})[0]))(t), want)
}

// providerEvents checks that an event of each kind is stored once, in whatever order events come,
// and that lists show the worst kind. Events change no status and refund no send.
func providerEvents(t *testing.T, f *Fixture) {
	begun := f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent, Provider: "mx", ProviderCode: "250"})
	before := f.Row(t, begun.Send.ID)
	f.Pass(time.Hour - time.Second)
	event := func(kind store.ProviderEventKind, at time.Time) store.ProviderEvent {
		return store.ProviderEvent{Send: begun.Send.ID, Kind: kind, At: at, Provider: "postmark", Detail: "550 5.1.1\x00"}
	}
	events := []store.ProviderEvent{
		event(store.ProviderDelivered, Epoch.Add(time.Second)), event(store.ProviderBounced,
			Epoch.Add(time.Minute+7)), event(store.ProviderDelayed, Epoch.Add(2*time.Minute)),
		// a time in the future, and no time
		event(store.ProviderComplained, f.Now.Add(time.Hour)), event(store.ProviderOptedOut, time.Time{}),
	}
	for _, i := range []int{1, 3, 0, 4, 2} {
		f.ingest(t, true, events[i])
		f.ingest(t, false, events[i])
		events[i].HeardAt, events[i].Detail = f.Now, "550 5.1.1\uFFFD"
	}
	events[1].At, events[3].At, events[4].At = Epoch.Add(time.Minute), f.Now, f.Now
	story := Must(f.SendDetails(t.Context(), begun.Send.ID))(t)
	Equal(t, "events", story.Events, events)
	before.WorstEvent = store.ProviderComplained
	Equal(t, "row", story.Send, before)
	Equal(t, "suppressions", len(story.Suppressions), 0)
	events[1].ForGood = true
	for range 2 { // a hard bounce after a temporary one
		f.ingest(t, false, events[1], store.NewSuppression{Cause: store.CauseHardBounce, Address: Address(1), For: time.Hour})
	}
	story = Must(f.SendDetails(t.Context(), begun.Send.ID))(t)
	Equal(t, "bounced, suppressions", []any{story.Send.Bounced, len(story.Suppressions)}, []any{true, 1})
	refusal := f.Refusal(1, nil)
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{refusal}))
	for _, none := range []uuid.UUID{{1}, refusal.ID} {
		e := store.ProviderEvent{Send: none, Kind: store.ProviderDelivered}
		Is(t, Err(f.IngestProviderEvent(t.Context(), e, store.NewSuppression{})), fault.NotFound)
	}
}

// RankedEventKinds are all kinds of events that have a rank, worst last.
var RankedEventKinds = []store.ProviderEventKind{
	store.ProviderDelivered, store.ProviderBounced, store.ProviderOptedOut, store.ProviderComplained,
}

// providerEventsAtOnce records events of each ranked kind several times at once, through both
// replicas: one call of each kind stores its event.
func providerEventsAtOnce(t *testing.T, f *Fixture) {
	id := f.Admit(t, f.Intent(1, to(1))).Send.ID
	kinds := RankedEventKinds
	Equal(t, "recorded", f.atOnce(t, 24, func(db *sqldb.DB, i int) (bool, error) {
		return db.IngestProviderEvent(t.Context(), store.ProviderEvent{Send: id, Kind: kinds[i%len(kinds)], Provider: "p"},
			store.NewSuppression{Cause: store.CauseComplaint, Address: Address(1), For: time.Hour})
	}), len(kinds))
	Equal(t, "afterwards", f.Row(t, id).WorstEvent, store.ProviderComplained)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
}

// providerEventsExpire checks that provider events are deleted with their send, and suppressions
// once they have been over for the same time.
func providerEventsExpire(t *testing.T, f *Fixture) {
	id := f.Ended(t, f.Intent(1, to(1)), Sent).Send.ID
	f.ingest(t, true, store.ProviderEvent{Send: id, Kind: store.ProviderComplained, Provider: "p"},
		store.NewSuppression{Cause: store.CauseComplaint, Address: Address(1), For: time.Minute})
	f.suppress(t, 2, 24*time.Hour)
	f.Pass(time.Hour + store.MaxCodeLife + time.Second)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "not yet: it held for a minute", len(f.suppressions(t, store.SuppressionFilter{})), 2)
	f.Pass(time.Minute)
	f.expireAndCheck(t, time.Hour, 10, 0)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
	again := f.Intent(1)
	again.Send.ID = id // the new send has the old ID, and nothing of the old send is left
	f.Admit(t, again)
	f.End(t, id, Sent)
	f.ingest(t, true, store.ProviderEvent{Send: id, Kind: store.ProviderComplained, Provider: "p"})
	f.Pass(48 * time.Hour)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 0)
}
