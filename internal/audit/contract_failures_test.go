package audit

import (
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/recipient"
)

// tryOnce says whether a try was counted; if not, the verification must be told as pending, as the bound alone does it.
func tryOnce(t *testing.T, f *fixture, id string) bool {
	t.Helper()
	v, counted, now, err := f.Attempt(t.Context(), id)
	ok(t, err)
	if !counted && !pending(v, now) {
		t.Fatalf("not counted, and not because of the bound: %s", show(v))
	}
	return counted
}

func (f *fixture) barred(t *testing.T, v Verification, want time.Duration) {
	t.Helper()
	got, err := f.Barred(t.Context(), v)
	ok(t, err)
	equal(t, "barred for", got, want)
}

// fail opens verifications of recipient n, a second apart, and spends all their tries.
func (f *fixture) fail(t *testing.T, n, verifications int) (all []Verification) {
	t.Helper()
	for range verifications {
		v := f.admit(t, f.intent(n)).Verification
		tries(t, f, v.ID, 5)
		all = append(all, v)
		f.pass(time.Second)
	}
	return all
}

func failures(t *testing.T, f *fixture) {
	spent := f.fail(t, 1, 3)
	last := f.admit(t, f.intent(1)).Verification
	tries(t, f, last.ID, 4)
	f.barred(t, last, 0)
	equal(t, "the twentieth", tryOnce(t, f, last.ID), true)
	fresh := f.admit(t, f.intent(1)).Verification
	equal(t, "a new code gives a new try", tryOnce(t, f, fresh.ID), false)
	got, _, _, err := f.Verification(t.Context(), fresh.ID)
	ok(t, err)
	equal(t, "tries of the new code", got.Attempts, 0)
	end := spent[0].ExpiresAt.Add(FailureWindow)
	f.barred(t, fresh, end.Sub(f.now))
	others := f.admit(t, f.intent(2)).Verification
	equal(t, "another recipient", tryOnce(t, f, others.ID), true)

	f.pass(end.Sub(f.now) - time.Microsecond)
	f.barred(t, fresh, time.Microsecond)
	late := f.admit(t, f.intent(1)).Verification
	equal(t, "1 µs early", tryOnce(t, f, late.ID), false)
	f.pass(time.Microsecond)
	f.barred(t, fresh, 0)
	tries(t, f, late.ID, 5) // as many as the first one had
	f.barred(t, fresh, spent[1].ExpiresAt.Add(FailureWindow).Sub(f.now))
}

func failuresApart(t *testing.T, f *fixture) {
	f.fail(t, 1, 3)
	right := f.admit(t, f.intent(1)).Verification
	tries(t, f, right.ID, 5)
	v := f.admit(t, f.intent(1)).Verification
	equal(t, "at the bound", tryOnce(t, f, v.ID), false)
	won, err := f.Approve(t.Context(), right.ID, Tell{})
	ok(t, err)
	equal(t, "approved", won, true)
	equal(t, "a right answer gives back its own try", tryOnce(t, f, v.ID), true)
	equal(t, "and no more", tryOnce(t, f, v.ID), false)
	cancel(t, f, v.ID)
	w := f.admit(t, f.intent(1)).Verification
	equal(t, "canceling gives nothing back", tryOnce(t, f, w.ID), false)
	for what, change := range map[string]func(*Intent){
		"another app":     func(in *Intent) { in.Send.App = "other" },
		"another channel": func(in *Intent) { in.Send.Channel = recipient.SMS },
	} {
		apart := f.admit(t, f.intent(1, change)).Verification
		equal(t, what, tryOnce(t, f, apart.ID), true)
	}
	signup := f.admit(t, f.intent(1, func(in *Intent) { in.Send.Purpose = "signup" })).Verification
	equal(t, "another purpose", tryOnce(t, f, signup.ID), false)
}

// SEC-7: a hundred wrong tries in a row are enough for a month, however they are spread over days; a right one starts anew.
func failuresInARow(t *testing.T, f *fixture) {
	day := func(n int) []Verification {
		spent := f.fail(t, n, 4)
		f.pass(FailureWindow + 11*time.Minute)
		return spent
	}
	first := day(1)
	for range 3 {
		day(1)
	}
	last := f.fail(t, 1, 3)
	almost := f.admit(t, f.intent(1)).Verification
	tries(t, f, almost.ID, 4)
	equal(t, "the hundredth", tryOnce(t, f, almost.ID), true)
	f.pass(last[0].ExpiresAt.Add(FailureWindow).Sub(f.now) + 11*time.Minute)
	next := f.admit(t, f.intent(1)).Verification
	equal(t, "one more", tryOnce(t, f, next.ID), false)
	f.barred(t, next, first[0].ExpiresAt.Add(RowWindow).Sub(f.now))

	for range 4 {
		day(3)
	}
	right := f.admit(t, f.intent(3)).Verification
	tries(t, f, right.ID, 1)
	won, err := f.Approve(t.Context(), right.ID, Tell{})
	ok(t, err)
	equal(t, "approved", won, true)
	f.pass(11 * time.Minute)
	for range 4 {
		day(3)
	}
	f.barred(t, f.admit(t, f.intent(3)).Verification, 0)

	f.pass(first[0].ExpiresAt.Add(RowWindow).Sub(f.now))
	free := f.admit(t, f.intent(1)).Verification
	equal(t, "a month later", tryOnce(t, f, free.ID), true)
}

func failuresAtOnce(t *testing.T, f *fixture) {
	var codes []Verification
	for range 10 {
		codes = append(codes, f.admit(t, f.intent(1)).Verification)
	}
	var counted atomic.Int32
	together(100, func(i int) {
		_, ok, _, err := f.both(i).Attempt(t.Context(), codes[i%10].ID)
		if err != nil {
			t.Error(err)
		}
		if ok {
			counted.Add(1)
		}
	})
	equal(t, "counted", counted.Load(), FailureLimit)
}
