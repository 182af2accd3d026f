package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Act is one of an administrator, with room for changes.
func (f *Fixture) Act(changes ...func(*store.AuditEntry)) store.AuditEntry {
	f.Serial++
	a := store.AuditEntry{
		ID: uuid.UUID{2: byte(f.Serial >> 8), 3: byte(f.Serial), 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", Network: "192.0.2.0/24",
		What: "quota.reset", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{15: 1},
		To: "a•••@example.com", Target: "0190", Reason: "ticket 7, she waits\nat the door", Outcome: store.AuditDone, Detail: "3",
	}
	for _, change := range changes {
		change(&a)
	}
	return a
}

// ListActs lists the acts of a filter, 200 at most.
func (f *Fixture) ListActs(t *testing.T, filter store.AuditFilter) []store.AuditEntry {
	t.Helper()
	if filter.Limit == 0 {
		filter.Limit = store.MaxPage
	}
	list := Must(f.AuditEntries(t.Context(), filter))(t)
	return list
}

func acts(t *testing.T, f *Fixture) {
	begun := f.Act(func(a *store.AuditEntry) { a.Outcome, a.Detail = store.AuditBegun, "" })
	OK(t, f.AddAuditEntry(t.Context(), begun))
	begun.At = f.Now
	f.Pass(time.Second)
	ended := Must(store.CompleteAuditEntry(begun, store.AuditFailed, "limiter"))(t)
	OK(t, f.Replica.AddAuditEntry(t.Context(), ended))
	ended.At = f.Now
	Equal(t, "what it ends", ended.Ends, begun.ID)
	f.Pass(time.Second)
	onNoOne := f.Act(func(a *store.AuditEntry) {
		a.Who, a.What, a.Recipient, a.To, a.App, a.Channel, a.Purpose, a.Outcome = "li", "account.add", recipient.Hash{}, "", "", "", "",
			store.AuditFailed
	})
	same := f.Act() // in the same instant
	OK(t, f.AddAuditEntry(t.Context(), onNoOne))
	OK(t, f.AddAuditEntry(t.Context(), same))
	onNoOne.At, same.At = f.Now, f.Now

	Equal(t, "all", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{same, onNoOne, ended, begun})
	Equal(t, "of one", f.ListActs(t, store.AuditFilter{Who: "li"}), []store.AuditEntry{onNoOne})
	Equal(t, "of one kind", f.ListActs(t, store.AuditFilter{What: "quota.reset"}), []store.AuditEntry{same, ended, begun})
	Equal(t, "on one", f.ListActs(t, store.AuditFilter{Recipient: &recipient.Hash{15: 1}}), []store.AuditEntry{same, ended, begun})
	Equal(t, "on another", f.ListActs(t, store.AuditFilter{Recipient: &recipient.Hash{15: 2}}), nil)
	Equal(t, "on no one", f.ListActs(t, store.AuditFilter{Recipient: &recipient.Hash{}}), nil)
	Equal(t, "hostile", f.ListActs(t, store.AuditFilter{Who: "\x00'; --"}), nil)
	Equal(t, "first page", f.ListActs(t, store.AuditFilter{Limit: 1}), []store.AuditEntry{same})
	Equal(t, "next page", f.ListActs(t, store.AuditFilter{Limit: 2, Before: &store.Mark{At: same.At, ID: same.ID}}),
		[]store.AuditEntry{onNoOne, ended})
}

func actsOnce(t *testing.T, f *Fixture) {
	a := f.Act()
	OK(t, f.AddAuditEntry(t.Context(), a))
	first := f.Now
	f.Pass(time.Second)
	other := f.Act(func(b *store.AuditEntry) {
		b.ID, b.Who, b.To, b.Recipient = a.ID, "eve", "e•••@example.com", recipient.Hash{15: 2}
	})
	OK(t, f.AddAuditEntry(t.Context(), other)) // after an answer that was lost; it rewrites nothing
	a.At = first
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{a})
}

// A code that an administrator cancels, and one that had ended: the act says which.
func cancelsBy(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	f.Pass(time.Second)
	_, err := f.CancelBy(t.Context(), v.ID, f.Act(func(a *store.AuditEntry) { a.Who = "" }))
	Is(t, err, store.ErrBadRequest)
	var acts []store.AuditEntry
	for n, id := range []string{v.ID, v.ID, "no such id"} {
		act := f.Act()
		Equal(t, "canceled", Must(f.CancelBy(t.Context(), id, act))(t), n == 0)
		if act.At = f.Now; n > 0 {
			act.Outcome, act.Detail = store.AuditFailed, "ended"
		}
		acts = append([]store.AuditEntry{act}, acts...)
	}
	Equal(t, "canceled at", f.Code(t, v.ID).CanceledAt, f.Now)
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), acts)
}
