package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func cancels(t *testing.T, f *Fixture) {
	done := func(what, id string, want bool) {
		t.Helper()
		got := Must(f.Cancel(t.Context(), id))(t)
		Equal(t, what, got, want)
	}
	done("no such id", "no such id", false)
	v := f.Admit(t, f.Intent(1)).Verification
	f.Pass(time.Second)
	done("pending", v.ID, true)
	at := f.Now
	f.Pass(time.Second)
	done("canceled before", v.ID, false)
	Equal(t, "canceled at", f.Code(t, v.ID).CanceledAt, at)

	approved, tried, late := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(2)).Verification, f.Admit(t, f.Intent(1)).Verification
	Must(f.Approve(t.Context(), approved.ID, store.NewEvent{}))(t)
	done("approved", approved.ID, false)
	got := f.Code(t, approved.ID)
	Equal(t, "canceled at, of an approved one", got.CanceledAt, time.Time{})
	useTries(t, f, tried.ID, 5)
	done("no try left", tried.ID, true)
	f.Pass(10 * time.Minute)
	done("expired", late.ID, false)
	f.Pass(-time.Microsecond)
	done("in its last instant", late.ID, true)
}

func cancelOrApprove(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	var won atomic.Int32
	Together(50, func(i int) {
		end := f.Both(i).Cancel
		if i%4 > 1 {
			end = func(ctx context.Context, id string) (bool, error) {
				return f.Both(i).Approve(ctx, id, store.NewEvent{})
			}
		}
		done, err := end(t.Context(), v.ID)
		if err != nil {
			t.Error(err)
		}
		if done {
			won.Add(1)
		}
	})
	Equal(t, "ends", won.Load(), 1)
	got := f.Code(t, v.ID)
	Equal(t, "canceled and not approved, or the other way round", got.CanceledAt.IsZero() != got.ApprovedAt.IsZero(), true)
}

// redeemedOnce is an approval whose proof 50 requests redeem at once.
func redeemedOnce(t *testing.T, f *Fixture) {
	redeem := func(what, id string, want bool) {
		t.Helper()
		got := Must(f.Redeem(t.Context(), id, nil))(t)
		Equal(t, what, got, want)
	}
	redeem("no such id", "no such id", false)
	v := f.Admit(t, f.Intent(1)).Verification
	redeem("pending", v.ID, false)
	Must(f.Approve(t.Context(), v.ID, store.NewEvent{}))(t)
	f.Pass(time.Second)
	var won atomic.Int32
	var by [50][]byte
	Together(50, func(i int) {
		by[i] = []byte{byte(i + 1)}
		done, err := f.Both(i).Redeem(t.Context(), v.ID, by[i])
		if err != nil {
			t.Error(err)
		}
		if done {
			won.Store(won.Load()*100 + int32(i+1))
		}
	})
	got := f.Code(t, v.ID)
	Equal(t, "redeemed at", got.RedeemedAt, f.Now)
	Equal(t, "redeemed by the one that won", got.RedeemedBy, []byte{byte(won.Load())})
	redeem("again", v.ID, false)
	Equal(t, "redeemed by still", f.Code(t, v.ID).RedeemedBy, []byte{byte(won.Load())})

	other := f.Admit(t, f.Intent(2)).Verification
	Must(f.Approve(t.Context(), other.ID, store.NewEvent{}))(t)
	redeem("without a key", other.ID, true)
	got = f.Code(t, other.ID)
	Equal(t, "by", len(got.RedeemedBy), 0)
}

func newestOfHolder(t *testing.T, f *Fixture) {
	held := func(holder string) func(*store.Intent) {
		return func(in *store.Intent) { in.Verification.Holder, in.MinLife = holder, time.Hour } // never joined
	}
	older := f.Admit(t, f.Intent(1, held("s:1"))).Verification
	f.Pass(time.Second)
	newer := f.Admit(t, f.Intent(1, held("s:1"))).Verification
	f.Pass(time.Second)
	f.Admit(t, f.Intent(1, held("s:2")))
	f.Admit(t, f.Intent(1, held("")))
	whose := store.HolderQuery{App: "shop", Channel: recipient.Email, Recipient: newer.Recipient, Purpose: "login", Holder: "s:1"}
	finds := func(what string, h store.HolderQuery, want store.Verification) {
		t.Helper()
		got, err := f.Newest(t.Context(), h)
		if want.ID == "" {
			Is(t, err, store.ErrNotFound)
			return
		}
		OK(t, err)
		Equal(t, what, got, want)
	}
	finds("newest", whose, newer)
	for what, change := range map[string]func(*store.HolderQuery){
		"another app":       func(h *store.HolderQuery) { h.App = "other" },
		"another channel":   func(h *store.HolderQuery) { h.Channel = recipient.SMS },
		"another recipient": func(h *store.HolderQuery) { h.Recipient[0] = 9 },
		"another purpose":   func(h *store.HolderQuery) { h.Purpose = "signup" },
		"another holder":    func(h *store.HolderQuery) { h.Holder = "s:3" },
	} {
		other := whose
		change(&other)
		finds(what, other, store.Verification{})
	}
	unheld := whose
	unheld.Holder = ""
	_, err := f.Newest(t.Context(), unheld)
	Is(t, err, store.ErrBadRequest)

	useTries(t, f, newer.ID, 5)
	finds("the one that has tries left", whose, older)
	f.Pass(10*time.Minute - 2*time.Second - time.Microsecond)
	finds("in its last instant", whose, older)
	cancel(t, f, older.ID)
	finds("canceled", whose, store.Verification{})
	last := f.Admit(t, f.Intent(1, held("s:1"))).Verification
	finds("pending", whose, last)
	f.Pass(10 * time.Minute)
	finds("expired", whose, store.Verification{})
	f.Pass(-time.Minute)
	Must(f.Approve(t.Context(), last.ID, store.NewEvent{}))(t)
	finds("approved", whose, store.Verification{})
}
