package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func attempts(t *testing.T, f *Fixture) {
	_, _, _, err := f.Attempt(t.Context(), "no such id")
	Is(t, err, store.ErrNotFound)
	v := f.Admit(t, f.Intent(1)).Verification
	for n := 1; n <= 7; n++ {
		got, counted, now := Must3(f.Attempt(t.Context(), v.ID))(t)
		v.Attempts = min(n, 5)
		Equal(t, "counted", counted, n <= 5)
		Equal(t, "verification", got, v)
		Equal(t, "clock", now, f.Now)
	}

	expired, approved, canceled := f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(1))
	f.approve(t, approved.Verification.ID)
	cancel(t, f, canceled.Verification.ID)
	f.Pass(10 * time.Minute)
	for _, ended := range []store.Begun{expired, approved, canceled} {
		got, counted, _ := Must3(f.Attempt(t.Context(), ended.Verification.ID))(t)
		Equal(t, "counted", []any{counted, got.Attempts}, []any{false, 0})
	}
	f.Pass(-time.Microsecond)
	useTries(t, f, expired.Verification.ID, 1) // in its last instant
}

func guessesAtOnce(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "counted", f.atOnce(t, 100, func(log store.Store, _ int) (bool, error) {
		got, counted, _, err := log.Attempt(t.Context(), v.ID)
		if !counted && got.Attempts != 5 {
			t.Errorf("not counted, but told of %d attempts", got.Attempts)
		}
		return counted, err
	}), 5)
}

// approve approves a verification, which must be open.
func (f *Fixture) approve(t *testing.T, id string) {
	t.Helper()
	Equal(t, "approved", Must(f.Approve(t.Context(), id, store.NewEvent{}))(t), true)
}

// approvals and cancels test both ends of a verification: the first one wins, until the code expires.
func approvals(t *testing.T, f *Fixture) {
	ends(t, f, func(id string) (bool, error) { return f.Approve(t.Context(), id, store.NewEvent{}) },
		func(v store.Verification) time.Time { return v.ApprovedAt })
}

func cancels(t *testing.T, f *Fixture) {
	ends(t, f, func(id string) (bool, error) { return f.Cancel(t.Context(), id) },
		func(v store.Verification) time.Time { return v.CanceledAt })
}

func ends(t *testing.T, f *Fixture, end func(id string) (bool, error), at func(store.Verification) time.Time) {
	ended := func(id string, want bool) { t.Helper(); Equal(t, "ended", Must(end(id))(t), want) }
	ended("no such id", false)
	tried, late := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(2)).Verification
	approved, canceled := f.Admit(t, f.Intent(3)).Verification, f.Admit(t, f.Intent(3)).Verification
	f.Pass(time.Second)
	useTries(t, f, tried.ID, 5) // the fifth try may be the right one
	ended(tried.ID, true)
	want := f.Now
	f.Pass(time.Second)
	ended(tried.ID, false)
	Equal(t, "ended at", at(f.Code(t, tried.ID)), want)
	f.approve(t, approved.ID)
	cancel(t, f, canceled.ID)
	for _, v := range []store.Verification{approved, canceled} {
		before := f.Code(t, v.ID)
		ended(v.ID, false)
		Equal(t, "after another end", f.Code(t, v.ID), before)
	}
	f.Pass(10*time.Minute - 2*time.Second)
	ended(late.ID, false)
	f.Pass(-time.Microsecond)
	ended(late.ID, true)
}

func approvalsAtOnce(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "approved", f.atOnce(t, 50, func(log store.Store, _ int) (bool, error) {
		return log.Approve(t.Context(), v.ID, store.NewEvent{})
	}), 1)
}

func cancelOrApprove(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "ends", f.atOnce(t, 50, func(log store.Store, i int) (bool, error) {
		if i%4 > 1 {
			return log.Approve(t.Context(), v.ID, store.NewEvent{})
		}
		return log.Cancel(t.Context(), v.ID)
	}), 1)
	got := f.Code(t, v.ID)
	Equal(t, "canceled and not approved, or the other way round", got.CanceledAt.IsZero() != got.ApprovedAt.IsZero(), true)
}

// redeemedOnce is an approval whose proof 50 requests redeem at once.
func redeemedOnce(t *testing.T, f *Fixture) {
	redeem := func(id string, want bool) {
		t.Helper()
		Equal(t, "redeemed", Must(f.Redeem(t.Context(), id, nil))(t), want)
	}
	redeem("no such id", false)
	v, other := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(2)).Verification
	redeem(v.ID, false) // pending
	f.approve(t, v.ID)
	f.approve(t, other.ID)
	f.Pass(time.Second)
	var winner atomic.Int32
	Equal(t, "redeemed", f.atOnce(t, 50, func(log store.Store, i int) (bool, error) {
		won, err := log.Redeem(t.Context(), v.ID, []byte{byte(i + 1)})
		if won {
			winner.Store(int32(i + 1))
		}
		return won, err
	}), 1)
	redeem(v.ID, false)
	got := f.Code(t, v.ID)
	Equal(t, "redeemed", []any{got.RedeemedAt, got.RedeemedBy}, []any{f.Now, []byte{byte(winner.Load())}})
	redeem(other.ID, true) // without a key
	Equal(t, "by", len(f.Code(t, other.ID).RedeemedBy), 0)
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
	finds := func(what string, want store.Verification, changes ...func(*store.HolderQuery)) {
		t.Helper()
		h := store.HolderQuery{App: "shop", Channel: recipient.Email, Recipient: newer.Recipient, Purpose: "login", Holder: "s:1"}
		for _, change := range changes {
			change(&h)
		}
		got, err := f.Newest(t.Context(), h)
		if want.ID == "" {
			Is(t, err, store.ErrNotFound)
			return
		}
		OK(t, err)
		Equal(t, what, got, want)
	}
	none := store.Verification{}
	finds("newest", newer)
	finds("another app", none, func(h *store.HolderQuery) { h.App = "other" })
	finds("another channel", none, func(h *store.HolderQuery) { h.Channel = recipient.SMS })
	finds("another recipient", none, func(h *store.HolderQuery) { h.Recipient[0] = 9 })
	finds("another purpose", none, func(h *store.HolderQuery) { h.Purpose = "signup" })
	finds("another holder", none, func(h *store.HolderQuery) { h.Holder = "s:3" })
	_, err := f.Newest(t.Context(), store.HolderQuery{App: "shop", Channel: recipient.Email, Recipient: newer.Recipient, Purpose: "login"})
	Is(t, err, store.ErrBadRequest)

	useTries(t, f, newer.ID, 5)
	finds("the one that has tries left", older)
	f.Pass(10*time.Minute - 2*time.Second - time.Microsecond)
	finds("in its last instant", older)
	cancel(t, f, older.ID)
	finds("canceled", none)
	last := f.Admit(t, f.Intent(1, held("s:1"))).Verification
	finds("pending", last)
	f.Pass(10 * time.Minute)
	finds("expired", none)
	f.Pass(-time.Minute)
	f.approve(t, last.ID)
	finds("approved", none)
}
