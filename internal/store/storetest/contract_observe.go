package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// waiting checks that AnySendWaits reports a send that was postponed. It reports no send that an
// attempt holds, and none of the other channel.
func waiting(t *testing.T, f *Fixture) {
	check := func(mails, texts bool) {
		t.Helper()
		for ch, want := range map[recipient.Channel]bool{recipient.Email: mails, recipient.SMS: texts} {
			Equal(t, string(ch), Must(f.AnySendWaits(t.Context(), ch))(t), want)
		}
	}
	check(false, false)
	f.Admit(t, f.Intent(1, bySMS))
	id := f.Admit(t, f.Intent(2)).Send.ID
	check(false, false)
	Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(id, 1), After: time.Minute}))(t), true)
	check(true, false)
	f.Pass(time.Minute)
	f.MustTakeOver(t, 10)
	check(false, false)
}

// backlog checks that sends without an outcome are counted by channel, with the age of the oldest.
func backlog(t *testing.T, f *Fixture) {
	check := func(want map[recipient.Channel]store.Backlog) {
		t.Helper()
		Equal(t, "backlog", Must(f.Backlog(t.Context()))(t), want)
	}
	check(nil)
	first := f.Admit(t, f.Intent(1))
	f.Pass(time.Minute)
	second := f.Admit(t, f.Intent(2))
	text := f.Admit(t, f.Intent(3, bySMS))
	f.Pass(time.Second)
	check(map[recipient.Channel]store.Backlog{
		recipient.Email: {Sends: 2, Age: 61 * time.Second},
		recipient.SMS:   {Sends: 1, Age: time.Second},
	})
	f.End(t, first.Send.ID, Sent)
	check(map[recipient.Channel]store.Backlog{recipient.Email: {Sends: 1, Age: time.Second}, recipient.SMS: {Sends: 1, Age: time.Second}})
	f.End(t, second.Send.ID, Sent)
	f.End(t, text.Send.ID, Sent)
	check(nil)
}

// outboxCounts checks that the due rows of the outbox are counted by queue, apart from the rows
// that replicas hold, so that each replica knows its share.
func outboxCounts(t *testing.T, f *Fixture) {
	check := func(want map[store.Queue]store.OutboxCount) {
		t.Helper()
		Equal(t, "counts", Must(f.OutboxCounts(t.Context()))(t), want)
	}
	mails, texts, strangers := store.Queue{Channel: recipient.Email}, store.Queue{Channel: recipient.SMS},
		store.Queue{Channel: recipient.Email, Strangers: true}
	check(map[store.Queue]store.OutboxCount{})
	first, second := f.Admit(t, f.Intent(1)).Send.ID, f.Admit(t, f.Intent(2)).Send.ID
	f.Admit(t, f.Intent(3, bySMS))
	f.Admit(t, f.Intent(4, byBrowser))
	check(map[store.Queue]store.OutboxCount{mails: {Held: 2}, texts: {Held: 1}, strangers: {Held: 1}})
	for id, after := range map[uuid.UUID]time.Duration{first: time.Second, second: time.Minute} {
		Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(id, 1), After: after}))(t), true)
	}
	check(map[store.Queue]store.OutboxCount{mails: {}, texts: {Held: 1}, strangers: {Held: 1}})
	f.Pass(2 * time.Second)
	check(map[store.Queue]store.OutboxCount{mails: {Due: 1}, texts: {Held: 1}, strangers: {Held: 1}})
	f.Pass(time.Minute) // the leases have ended, too
	check(map[store.Queue]store.OutboxCount{mails: {Due: 2}, texts: {Due: 1}, strangers: {Due: 1}})
}

type kindKey struct{}

// recordingObserver is a sqldb.Observer that notes all calls. It puts the kind of a call into the
// call's context.
type recordingObserver struct {
	ended func(ctx context.Context, kind, name string, took time.Duration)
}

func (o recordingObserver) Began(ctx context.Context, kind string) context.Context {
	return context.WithValue(ctx, kindKey{}, kind)
}

func (o recordingObserver) Ended(ctx context.Context, kind, name string, took time.Duration) {
	o.ended(ctx, kind, name, took)
}

// observed checks that each call is observed once, with its kind, which is one of CallKinds, and
// its name. It also checks that in Postgres a pool reports its use.
func observed(t *testing.T, f *Fixture) {
	var got []string
	db := sqldb.WithObserver(f.DB, recordingObserver{func(ctx context.Context, kind, name string, took time.Duration) {
		if !slices.Contains(sqldb.CallKinds, kind) || took <= 0 || ctx.Value(kindKey{}) != kind {
			t.Errorf("%s took %v, in the context of %v", kind, took, ctx.Value(kindKey{}))
		}
		got = append(got, kind+" "+name)
	}})
	begun := Must(db.Begin(t.Context(), f.Intent(1)))(t)
	Must(db.Finish(t.Context(), store.Outcome{AttemptID: Held(begun.Send.ID, 1), Status: store.Sent}))(t)
	OK(t, err2(db.SendsByID(t.Context(), []uuid.UUID{begun.Send.ID})))
	OK(t, db.AddAuditEntry(t.Context(), f.Act()))
	OK(t, db.Ping(t.Context()))
	Equal(t, "calls", got, []string{"begin begin", "finish finish", "read SendsByID", "write AddAuditEntry", "ping ping"})
	OK(t, db.Read(t.Context(), "observed", func(sqldb.Tx) error {
		inUse := 0
		for _, p := range db.Pools() {
			inUse += p.InUse
		}
		if f.Dialect == sqldb.Postgres && inUse != 1 {
			t.Errorf("%+v", db.Pools())
		}
		return nil
	}))
}
