package storetest

import (
	"sync/atomic"
	"testing"
	"time"

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

	notCounted := func(name, id string) {
		t.Helper()
		got, counted, _ := Must3(f.Attempt(t.Context(), id))(t)
		if counted || got.Attempts != 0 {
			t.Errorf("%s: a try was counted", name)
		}
	}
	expired, approved, canceled := f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(1))
	Must(f.Approve(t.Context(), approved.Verification.ID, store.NewEvent{}))(t)
	notCounted("approved", approved.Verification.ID)
	cancel(t, f, canceled.Verification.ID)
	notCounted("canceled", canceled.Verification.ID)
	f.Pass(10 * time.Minute)
	notCounted("expired", expired.Verification.ID)
	f.Pass(-time.Microsecond)
	_, counted, _ := Must3(f.Attempt(t.Context(), expired.Verification.ID))(t)
	Equal(t, "counted in the last instant", counted, true)
}

func guessesAtOnce(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	var counted atomic.Int32
	Together(100, func(i int) {
		got, ok, _, err := f.Both(i).Attempt(t.Context(), v.ID)
		if err != nil {
			t.Error(err)
		}
		if ok {
			counted.Add(1)
		} else if got.Attempts != 5 {
			t.Errorf("not counted, but told of %d attempts", got.Attempts)
		}
	})
	Equal(t, "counted", counted.Load(), 5)
}

func approve(t *testing.T, f *Fixture) {
	won := func(id string, want bool) {
		t.Helper()
		got := Must(f.Approve(t.Context(), id, store.NewEvent{}))(t)
		Equal(t, "approved", got, want)
	}
	won("no such id", false)
	f.Pass(time.Second)
	v := f.Admit(t, f.Intent(1)).Verification
	f.Pass(time.Second)
	useTries(t, f, v.ID, 5) // the fifth try may be the right one
	won(v.ID, true)
	won(v.ID, false)
	Equal(t, "approved at", f.Code(t, v.ID).ApprovedAt, f.Now)

	late, canceled := f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(1))
	cancel(t, f, canceled.Verification.ID)
	won(canceled.Verification.ID, false)
	f.Pass(10 * time.Minute)
	won(late.Verification.ID, false)
	f.Pass(-time.Microsecond)
	won(late.Verification.ID, true)
}

func approvalsAtOnce(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	var won atomic.Int32
	Together(50, func(i int) {
		ok, err := f.Both(i).Approve(t.Context(), v.ID, store.NewEvent{})
		if err != nil {
			t.Error(err)
		}
		if ok {
			won.Add(1)
		}
	})
	Equal(t, "approved", won.Load(), 1)
}
