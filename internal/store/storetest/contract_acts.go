package storetest

import (
	"strings"
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

func badActs(t *testing.T, f *Fixture) {
	for what, change := range map[string]func(*store.AuditEntry){
		"no ID": func(a *store.AuditEntry) { a.ID = uuid.Nil }, "no name": func(a *store.AuditEntry) { a.Who = "" },
		"nothing":    func(a *store.AuditEntry) { a.What = "" },
		"no outcome": func(a *store.AuditEntry) { a.Outcome = "" }, "an outcome unknown": func(a *store.AuditEntry) { a.Outcome = "perhaps" },
		"a NUL":         func(a *store.AuditEntry) { a.Reason = "\x00" },
		"a long reason": func(a *store.AuditEntry) { a.Reason = strings.Repeat("木", store.MaxReason+1) },
		"a long detail": func(a *store.AuditEntry) { a.Detail = strings.Repeat("x", store.MaxText+1) },
		"no UTF-8":      func(a *store.AuditEntry) { a.Who = "\xff" },
	} {
		t.Log(what)
		Is(t, f.AddAuditEntry(t.Context(), f.Act(change)), store.ErrBadRequest)
	}
	OK(t, f.AddAuditEntry(t.Context(), f.Act(func(a *store.AuditEntry) { a.Reason = strings.Repeat("木", store.MaxReason) })))
	for _, limit := range []int{0, -1, store.MaxPage + 1} {
		_, err := f.AuditEntries(t.Context(), store.AuditFilter{Limit: limit})
		Is(t, err, store.ErrBadRequest)
	}
}

// A code that an administrator cancels, and one that had ended: the act says which.
func cancelsBy(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	f.Pass(time.Second)
	Is(t, func() error {
		_, err := f.CancelBy(t.Context(), v.ID, f.Act(func(a *store.AuditEntry) { a.Who = "" }))
		return err
	}(), store.ErrBadRequest)
	act, late, none := f.Act(), f.Act(), f.Act()
	for _, c := range []struct {
		id   string
		act  store.AuditEntry
		want bool
	}{{v.ID, act, true}, {v.ID, late, false}, {"no such id", none, false}} {
		Equal(t, "canceled", Must(f.CancelBy(t.Context(), c.id, c.act))(t), c.want)
	}
	Equal(t, "canceled at", f.Code(t, v.ID).CanceledAt, f.Now)
	for _, a := range []*store.AuditEntry{&act, &late, &none} {
		a.At = f.Now
	}
	late.Outcome, late.Detail, none.Outcome, none.Detail = store.AuditFailed, "ended", store.AuditFailed, "ended"
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{none, late, act})
}
