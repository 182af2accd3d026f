package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// act is one of an administrator, with room for changes.
func (f *fixture) act(changes ...func(*Act)) Act {
	f.serial++
	a := Act{
		ID: uuid.UUID{2: byte(f.serial >> 8), 3: byte(f.serial), 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", Network: "192.0.2.0/24",
		What: "quota.reset", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{15: 1},
		To: "a•••@example.com", Target: "0190", Reason: "ticket 7, she waits\nat the door", Outcome: ActDone, Detail: "3",
	}
	for _, change := range changes {
		change(&a)
	}
	return a
}

func (f *fixture) acts(t *testing.T, filter ActFilter) []Act {
	t.Helper()
	if filter.Limit == 0 {
		filter.Limit = maxPage
	}
	list, err := f.Acts(t.Context(), filter)
	ok(t, err)
	return list
}

func acts(t *testing.T, f *fixture) {
	begun := f.act(func(a *Act) { a.Outcome, a.Detail = ActBegun, "" })
	ok(t, f.RecordAct(t.Context(), begun))
	begun.At = f.now
	f.pass(time.Second)
	ended, err := EndOf(begun, ActFailed, "limiter")
	ok(t, err)
	ok(t, f.replica.RecordAct(t.Context(), ended))
	ended.At = f.now
	equal(t, "what it ends", ended.Ends, begun.ID)
	f.pass(time.Second)
	onNobody := f.act(func(a *Act) {
		a.Who, a.What, a.Recipient, a.To, a.App, a.Channel, a.Purpose, a.Outcome = "li", "account.add", recipient.Hash{}, "", "", "", "", ActFailed
	})
	same := f.act() // in the same instant
	ok(t, f.RecordAct(t.Context(), onNobody))
	ok(t, f.RecordAct(t.Context(), same))
	onNobody.At, same.At = f.now, f.now

	equal(t, "all", f.acts(t, ActFilter{}), []Act{same, onNobody, ended, begun})
	equal(t, "of one", f.acts(t, ActFilter{Who: "li"}), []Act{onNobody})
	equal(t, "of one kind", f.acts(t, ActFilter{What: "quota.reset"}), []Act{same, ended, begun})
	equal(t, "on one", f.acts(t, ActFilter{Recipient: &recipient.Hash{15: 1}}), []Act{same, ended, begun})
	equal(t, "on another", f.acts(t, ActFilter{Recipient: &recipient.Hash{15: 2}}), nil)
	equal(t, "on nobody", f.acts(t, ActFilter{Recipient: &recipient.Hash{}}), nil)
	equal(t, "hostile", f.acts(t, ActFilter{Who: "\x00'; --"}), nil)
	equal(t, "first page", f.acts(t, ActFilter{Limit: 1}), []Act{same})
	equal(t, "next page", f.acts(t, ActFilter{Limit: 2, Before: &Mark{At: same.At, ID: same.ID}}), []Act{onNobody, ended})
}

func actsOnce(t *testing.T, f *fixture) {
	a := f.act()
	ok(t, f.RecordAct(t.Context(), a))
	first := f.now
	f.pass(time.Second)
	other := f.act(func(b *Act) {
		b.ID, b.Who, b.To, b.Recipient = a.ID, "eve", "e•••@example.com", recipient.Hash{15: 2}
	})
	ok(t, f.RecordAct(t.Context(), other)) // after an answer that was lost; nobody rewrites anything by it
	a.At = first
	equal(t, "acts", f.acts(t, ActFilter{}), []Act{a})
}

func badActs(t *testing.T, f *fixture) {
	for what, change := range map[string]func(*Act){
		"no ID": func(a *Act) { a.ID = uuid.Nil }, "nobody": func(a *Act) { a.Who = "" }, "nothing": func(a *Act) { a.What = "" },
		"no outcome": func(a *Act) { a.Outcome = "" }, "an outcome unknown": func(a *Act) { a.Outcome = "perhaps" },
		"a NUL": func(a *Act) { a.Reason = "\x00" }, "a long reason": func(a *Act) { a.Reason = strings.Repeat("木", maxReason+1) },
		"a long detail": func(a *Act) { a.Detail = strings.Repeat("x", maxText+1) }, "no UTF-8": func(a *Act) { a.Who = "\xff" },
	} {
		t.Log(what)
		is(t, f.RecordAct(t.Context(), f.act(change)), ErrBadRequest)
	}
	ok(t, f.RecordAct(t.Context(), f.act(func(a *Act) { a.Reason = strings.Repeat("木", maxReason) })))
	for _, limit := range []int{0, -1, maxPage + 1} {
		_, err := f.Acts(t.Context(), ActFilter{Limit: limit})
		is(t, err, ErrBadRequest)
	}
}

// A code that an administrator cancels, and one that had ended: the act says which.
func cancelsBy(t *testing.T, f *fixture) {
	v := f.admit(t, f.intent(1)).Verification
	f.pass(time.Second)
	is(t, func() error { _, err := f.CancelBy(t.Context(), v.ID, f.act(func(a *Act) { a.Who = "" })); return err }(), ErrBadRequest)
	act, late, none := f.act(), f.act(), f.act()
	for _, c := range []struct {
		id   string
		act  Act
		want bool
	}{{v.ID, act, true}, {v.ID, late, false}, {"no such id", none, false}} {
		done, err := f.CancelBy(t.Context(), c.id, c.act)
		ok(t, err)
		equal(t, "canceled", done, c.want)
	}
	got, _, _, err := f.Verification(t.Context(), v.ID)
	ok(t, err)
	equal(t, "canceled at", got.CanceledAt, f.now)
	for _, a := range []*Act{&act, &late, &none} {
		a.At = f.now
	}
	late.Outcome, late.Detail, none.Outcome, none.Detail = ActFailed, "ended", ActFailed, "ended"
	equal(t, "acts", f.acts(t, ActFilter{}), []Act{none, late, act})
}
