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

func (f *fixture) lockedOut(t *testing.T, v Verification, want time.Duration) {
	t.Helper()
	got, err := f.LockedOut(t.Context(), v)
	ok(t, err)
	equal(t, "locked out for", got.Wait, want)
	equal(t, "kind of caller", got.ByBrowser, v.ByBrowser)
}

// noCode is a send that is refused since its code could not be tried.
func (f *fixture) noCode(t *testing.T, in Intent, want Lockout) {
	t.Helper()
	before := len(f.all(t))
	begun := f.begin(t, in)
	equal(t, "admitted", begun.Admitted, false)
	equal(t, "lockout", begun.Lockout, want)
	equal(t, "rows", len(f.all(t)), before)
	_, _, _, err := f.Verification(t.Context(), in.Verification.ID)
	is(t, err, ErrNotFound)
}

func byBrowser(in *Intent) { in.Verification.ByBrowser = true }

// fail opens verifications of recipient n, a second apart, and spends all their tries.
func (f *fixture) fail(t *testing.T, n, verifications int, changes ...func(*Intent)) (all []Verification) {
	t.Helper()
	for range verifications {
		v := f.admit(t, f.intent(n, changes...)).Verification
		tries(t, f, v.ID, 5)
		all = append(all, v)
		f.pass(time.Second)
	}
	return all
}

func failures(t *testing.T, f *fixture) {
	spent := f.fail(t, 1, 3)
	last, fresh := f.admit(t, f.intent(1)).Verification, f.admit(t, f.intent(1)).Verification
	tries(t, f, last.ID, 4)
	f.lockedOut(t, last, 0)
	f.admit(t, f.intent(1))
	equal(t, "the twentieth", tryOnce(t, f, last.ID), true)
	equal(t, "another code gives a new try", tryOnce(t, f, fresh.ID), false)
	got, _, _, err := f.Verification(t.Context(), fresh.ID)
	ok(t, err)
	equal(t, "tries of the other code", got.Attempts, 0)
	end := spent[0].ExpiresAt.Add(FailureWindow)
	f.lockedOut(t, fresh, end.Sub(f.now))
	f.noCode(t, f.intent(1), Lockout{Wait: end.Sub(f.now), Failures: FailureLimit})
	resend := f.intent(1)
	resend.Join = fresh.ID
	f.noCode(t, resend, Lockout{Wait: end.Sub(f.now), Failures: FailureLimit})
	others := f.admit(t, f.intent(2)).Verification
	equal(t, "another recipient", tryOnce(t, f, others.ID), true)

	f.pass(end.Sub(f.now) - time.Microsecond)
	f.lockedOut(t, fresh, time.Microsecond)
	f.noCode(t, f.intent(1), Lockout{Wait: time.Microsecond, Failures: FailureLimit})
	f.pass(time.Microsecond)
	f.lockedOut(t, fresh, 0)
	late := f.admit(t, f.intent(1)).Verification
	tries(t, f, late.ID, 5) // as many as the first one had
	f.lockedOut(t, fresh, spent[1].ExpiresAt.Add(FailureWindow).Sub(f.now))
}

// What callers of one kind fail at locks out their own codes alone, whoever enters them and whoever sends them once more.
func failuresByKind(t *testing.T, f *fixture) {
	theirs, own := f.admit(t, f.intent(1, byBrowser)).Verification, f.admit(t, f.intent(1)).Verification
	equal(t, "who opened it", []bool{theirs.ByBrowser, own.ByBrowser}, []bool{true, false})
	spent := f.fail(t, 1, 4, byBrowser)
	wait := spent[0].ExpiresAt.Add(FailureWindow).Sub(f.now)
	f.lockedOut(t, theirs, wait)
	f.lockedOut(t, own, 0)
	equal(t, "a browser's code", tryOnce(t, f, theirs.ID), false)
	equal(t, "a back end's code", tryOnce(t, f, own.ID), true)
	f.noCode(t, f.intent(1, byBrowser), Lockout{ByBrowser: true, Wait: wait, Failures: FailureLimit})
	f.admit(t, f.intent(1))
	again := f.intent(1, byBrowser)
	again.Join = own.ID // the code that it would carry can be tried
	equal(t, "joined", f.admit(t, again).Verification.ID, own.ID)
	again = f.intent(1)
	again.Join = theirs.ID
	f.noCode(t, again, Lockout{ByBrowser: true, Wait: wait, Failures: FailureLimit})
	again = f.intent(1)
	again.Join = spent[0].ID // it can't be joined: a new one is opened, by a back end
	equal(t, "opened", f.admit(t, again).Verification.ByBrowser, false)

	tries(t, f, own.ID, 4)
	f.fail(t, 1, 3)
	f.lockedOut(t, own, own.ExpiresAt.Add(FailureWindow).Sub(f.now))
	f.lockedOut(t, theirs, theirs.ExpiresAt.Add(FailureWindow).Sub(f.now))
	f.forgive(t, ana)
	f.lockedOut(t, own, 0)
	f.lockedOut(t, theirs, 0)
	equal(t, "a browser's code, forgiven", tryOnce(t, f, theirs.ID), true)
	f.admit(t, f.intent(1, byBrowser))
}

func failuresApart(t *testing.T, f *fixture) {
	right := f.admit(t, f.intent(1)).Verification
	v, w := f.admit(t, f.intent(1)).Verification, f.admit(t, f.intent(1)).Verification
	signup := f.admit(t, f.intent(1, func(in *Intent) { in.Send.Purpose = "signup" })).Verification
	f.fail(t, 1, 3)
	tries(t, f, right.ID, 5)
	equal(t, "at the bound", tryOnce(t, f, v.ID), false)
	won, err := f.Approve(t.Context(), right.ID, Tell{})
	ok(t, err)
	equal(t, "approved", won, true)
	equal(t, "a right answer gives back its own try", tryOnce(t, f, v.ID), true)
	equal(t, "and no more", tryOnce(t, f, v.ID), false)
	cancel(t, f, v.ID)
	equal(t, "canceling gives nothing back", tryOnce(t, f, w.ID), false)
	for what, change := range map[string]func(*Intent){
		"another app":     func(in *Intent) { in.Send.App = "other" },
		"another channel": func(in *Intent) { in.Send.Channel = recipient.SMS },
	} {
		apart := f.admit(t, f.intent(1, change)).Verification
		equal(t, what, tryOnce(t, f, apart.ID), true)
	}
	equal(t, "another purpose", tryOnce(t, f, signup.ID), false)
	equal(t, "its send", f.begin(t, f.intent(1, func(in *Intent) { in.Send.Purpose = "signup" })).Admitted, false)
}

// The rules refuse first: their history is told, and not how often somebody guessed.
func failuresAfterTheRules(t *testing.T, f *fixture) {
	f.fail(t, 1, 4)
	one := withRules(rule(1, time.Hour))
	begun := f.begin(t, f.intent(1, one))
	equal(t, "admitted", begun.Admitted, false)
	equal(t, "lockout", begun.Lockout, Lockout{})
	equal(t, "history", len(begun.History), 4)
}

// SEC-7: a hundred wrong tries in a row are enough for a month, however they are spread over days; a right one starts anew.
func failuresInARow(t *testing.T, f *fixture) {
	day := func(n int, changes ...func(*Intent)) []Verification {
		spent := f.fail(t, n, 4, changes...)
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
	wait := first[0].ExpiresAt.Add(RowWindow).Sub(f.now)
	f.noCode(t, f.intent(1), Lockout{Wait: wait, Failures: RowLimit})
	f.lockedOut(t, almost, wait)
	theirs := f.admit(t, f.intent(1, byBrowser)).Verification
	equal(t, "the other kind", tryOnce(t, f, theirs.ID), true)

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
	f.lockedOut(t, f.admit(t, f.intent(3)).Verification, 0)

	// A right code of one kind ends no row of the other.
	for range 4 {
		day(4, byBrowser)
	}
	right = f.admit(t, f.intent(4)).Verification
	tries(t, f, right.ID, 1)
	won, err = f.Approve(t.Context(), right.ID, Tell{})
	ok(t, err)
	equal(t, "approved", won, true)
	f.pass(11 * time.Minute)
	day(4, byBrowser)
	equal(t, "a row of browsers", f.begin(t, f.intent(4, byBrowser)).Lockout.Failures, RowLimit)

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
