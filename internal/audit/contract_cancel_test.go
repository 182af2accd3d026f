package audit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/recipient"
)

func cancels(t *testing.T, f *fixture) {
	done := func(what, id string, want bool) {
		t.Helper()
		got, err := f.Cancel(t.Context(), id)
		ok(t, err)
		equal(t, what, got, want)
	}
	done("no such id", "no such id", false)
	v := f.admit(t, f.intent(1)).Verification
	f.pass(time.Second)
	done("pending", v.ID, true)
	at := f.now
	f.pass(time.Second)
	done("canceled before", v.ID, false)
	got, _, _, err := f.Verification(t.Context(), v.ID)
	ok(t, err)
	equal(t, "canceled at", got.CanceledAt, at)

	approved, tried, late := f.admit(t, f.intent(1)).Verification, f.admit(t, f.intent(2)).Verification, f.admit(t, f.intent(1)).Verification
	_, err = f.Approve(t.Context(), approved.ID, Tell{})
	ok(t, err)
	done("approved", approved.ID, false)
	got, _, _, err = f.Verification(t.Context(), approved.ID)
	ok(t, err)
	equal(t, "canceled at, of an approved one", got.CanceledAt, time.Time{})
	tries(t, f, tried.ID, 5)
	done("no try left", tried.ID, true)
	f.pass(10 * time.Minute)
	done("expired", late.ID, false)
	f.pass(-time.Microsecond)
	done("in its last instant", late.ID, true)
}

func cancelOrApprove(t *testing.T, f *fixture) {
	v := f.admit(t, f.intent(1)).Verification
	var won atomic.Int32
	together(50, func(i int) {
		end := f.both(i).Cancel
		if i%4 > 1 {
			end = func(ctx context.Context, id string) (bool, error) { return f.both(i).Approve(ctx, id, Tell{}) }
		}
		done, err := end(t.Context(), v.ID)
		if err != nil {
			t.Error(err)
		}
		if done {
			won.Add(1)
		}
	})
	equal(t, "ends", won.Load(), 1)
	got, _, _, err := f.Verification(t.Context(), v.ID)
	ok(t, err)
	equal(t, "canceled and not approved, or the other way round", got.CanceledAt.IsZero() != got.ApprovedAt.IsZero(), true)
}

func newestOfHolder(t *testing.T, f *fixture) {
	held := func(holder string) func(*Intent) {
		return func(in *Intent) { in.Verification.Holder, in.MinLife = holder, time.Hour } // never joined
	}
	older := f.admit(t, f.intent(1, held("s:1"))).Verification
	f.pass(time.Second)
	newer := f.admit(t, f.intent(1, held("s:1"))).Verification
	f.pass(time.Second)
	f.admit(t, f.intent(1, held("s:2")))
	f.admit(t, f.intent(1, held("")))
	whose := Holding{App: "shop", Channel: recipient.Email, Recipient: newer.Recipient, Purpose: "login", Holder: "s:1"}
	finds := func(what string, h Holding, want Verification) {
		t.Helper()
		got, err := f.Newest(t.Context(), h)
		if want.ID == "" {
			is(t, err, ErrNotFound)
			return
		}
		ok(t, err)
		equal(t, what, got, want)
	}
	finds("newest", whose, newer)
	for what, change := range map[string]func(*Holding){
		"another app": func(h *Holding) { h.App = "other" }, "another channel": func(h *Holding) { h.Channel = recipient.SMS },
		"another recipient": func(h *Holding) { h.Recipient[0] = 9 }, "another purpose": func(h *Holding) { h.Purpose = "signup" },
		"another holder": func(h *Holding) { h.Holder = "s:3" },
	} {
		other := whose
		change(&other)
		finds(what, other, Verification{})
	}
	nobody := whose
	nobody.Holder = ""
	_, err := f.Newest(t.Context(), nobody)
	is(t, err, ErrBadRequest)

	tries(t, f, newer.ID, 5)
	finds("the one that has tries left", whose, older)
	f.pass(10*time.Minute - 2*time.Second - time.Microsecond)
	finds("in its last instant", whose, older)
	cancel(t, f, older.ID)
	finds("canceled", whose, Verification{})
	last := f.admit(t, f.intent(1, held("s:1"))).Verification
	finds("pending", whose, last)
	f.pass(10 * time.Minute)
	finds("expired", whose, Verification{})
	f.pass(-time.Minute)
	_, err = f.Approve(t.Context(), last.ID, Tell{})
	ok(t, err)
	finds("approved", whose, Verification{})
}
