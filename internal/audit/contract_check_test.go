package audit

import (
	"sync/atomic"
	"testing"
	"time"
)

func attempts(t *testing.T, f *fixture) {
	_, _, _, err := f.Attempt(t.Context(), "no such id")
	is(t, err, ErrNotFound)
	v := f.admit(t, f.intent(1)).Verification
	for n := 1; n <= 7; n++ {
		got, counted, now, err := f.Attempt(t.Context(), v.ID)
		ok(t, err)
		v.Attempts = min(n, 5)
		equal(t, "counted", counted, n <= 5)
		equal(t, "verification", got, v)
		equal(t, "clock", now, f.now)
	}

	notCounted := func(name, id string) {
		t.Helper()
		got, counted, _, err := f.Attempt(t.Context(), id)
		ok(t, err)
		if counted || got.Attempts != 0 {
			t.Errorf("%s: a try was counted", name)
		}
	}
	expired, approved, canceled := f.admit(t, f.intent(1)), f.admit(t, f.intent(1)), f.admit(t, f.intent(1))
	_, err = f.Approve(t.Context(), approved.Verification.ID, Tell{})
	ok(t, err)
	notCounted("approved", approved.Verification.ID)
	cancel(t, f, canceled.Verification.ID)
	notCounted("canceled", canceled.Verification.ID)
	f.pass(10 * time.Minute)
	notCounted("expired", expired.Verification.ID)
	f.pass(-time.Microsecond)
	_, counted, _, err := f.Attempt(t.Context(), expired.Verification.ID)
	ok(t, err)
	equal(t, "counted in the last instant", counted, true)
}

func guessesAtOnce(t *testing.T, f *fixture) {
	v := f.admit(t, f.intent(1)).Verification
	var counted atomic.Int32
	together(100, func(i int) {
		got, ok, _, err := f.both(i).Attempt(t.Context(), v.ID)
		if err != nil {
			t.Error(err)
		}
		if ok {
			counted.Add(1)
		} else if got.Attempts != 5 {
			t.Errorf("not counted, but told of %d attempts", got.Attempts)
		}
	})
	equal(t, "counted", counted.Load(), 5)
}

func approve(t *testing.T, f *fixture) {
	won := func(id string, want bool) {
		t.Helper()
		got, err := f.Approve(t.Context(), id, Tell{})
		ok(t, err)
		equal(t, "approved", got, want)
	}
	won("no such id", false)
	f.pass(time.Second)
	v := f.admit(t, f.intent(1)).Verification
	f.pass(time.Second)
	tries(t, f, v.ID, 5) // the fifth try may be the right one
	won(v.ID, true)
	won(v.ID, false)
	got, _, _, err := f.Verification(t.Context(), v.ID)
	ok(t, err)
	equal(t, "approved at", got.ApprovedAt, f.now)

	late, canceled := f.admit(t, f.intent(1)), f.admit(t, f.intent(1))
	cancel(t, f, canceled.Verification.ID)
	won(canceled.Verification.ID, false)
	f.pass(10 * time.Minute)
	won(late.Verification.ID, false)
	f.pass(-time.Microsecond)
	won(late.Verification.ID, true)
}

func approvalsAtOnce(t *testing.T, f *fixture) {
	v := f.admit(t, f.intent(1)).Verification
	var won atomic.Int32
	together(50, func(i int) {
		ok, err := f.both(i).Approve(t.Context(), v.ID, Tell{})
		if err != nil {
			t.Error(err)
		}
		if ok {
			won.Add(1)
		}
	})
	equal(t, "approved", won.Load(), 1)
}
