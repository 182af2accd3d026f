package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
)

// guessesAtOnce makes a hundred wrong checks at once. Of one verification, as many count as it has
// attempts. Of ten verifications of a recipient, FailedCheckLimit count.
func guessesAtOnce(t *testing.T, f *Fixture) {
	for n, want := range map[int]int{1: 5, 10: rowrules.FailedCheckLimit} {
		var ids []string
		for range n {
			ids = append(ids, f.Admit(t, f.Intent(n)).Verification.ID)
		}
		Equal(t, "counted", f.atOnce(t, 100, func(db *sqldb.DB, i int) (bool, error) {
			got, err := db.Check(t.Context(), Wrong(ids[i%n]))
			if !got.Counted && n == 1 && got.Verification.Attempts != want {
				t.Errorf("not counted, but told of %d attempts", got.Verification.Attempts)
			}
			return got.Counted, err
		}), want)
	}
}

// checksAreKept checks that each counted check is stored with its instant and its network.
func checksAreKept(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	var want []store.Check
	for i, network := range []string{"192.0.2.0/24", "", "2001:db8::/48", "", "", "203.0.113.0/24"} {
		f.Pass(time.Second)
		check := Wrong(v.ID)
		check.Network = network
		Must(f.Check(t.Context(), check))(t)
		if i < v.MaxAttempts {
			want = append(want, store.Check{At: f.Now, Network: network})
		}
		Equal(t, "checks", f.Code(t, v.ID).Checks, want)
	}
}

// checksWithKeys checks Idempotency-Keys of checks. A check with the key and the code of the last
// counted check repeats that check. With the key and another code, a check does not count. After
// five such checks, no check repeats the counted one.
func checksWithKeys(t *testing.T, f *Fixture) {
	held := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	v := f.Admit(t, f.Intent(1, held)).Verification
	type result struct{ counted, approved, repeated, keyReused bool }
	check := func(c store.CheckRequest, key, code byte, want result) {
		t.Helper()
		got := Must(f.Check(t.Context(), withKey(c, key, code)))(t)
		servertest.Same(t, fmt.Sprintf("check with key %d and code %d", key, code),
			result{got.Counted, got.Approved, got.Repeated, got.KeyReused}, want)
		Equal(t, "as read", got.Verification, f.Code(t, v.ID))
	}
	check(Wrong(v.ID), 1, 1, result{counted: true})
	check(Right(v.ID), 1, 1, result{repeated: true})
	check(Right(v.ID), 1, 2, result{keyReused: true})
	check(Wrong(v.ID), 2, 1, result{counted: true})
	check(Right(v.ID), 1, 2, result{counted: true, approved: true})
	f.Pass(time.Second)
	newer := f.Admit(t, f.Intent(1, held)).Verification
	query := store.RecipientVerificationsQuery{App: "shop", Channel: recipient.Email, Recipient: v.Recipient, Purpose: "login", Holder: "s:1"}
	Equal(t, "newest", Must(f.VerificationToCheck(t.Context(), query))(t).ID, newer.ID)
	query.CheckKey = bytes.Repeat([]byte{1}, store.CheckKeyHashSize)
	Equal(t, "of the key", Must(f.VerificationToCheck(t.Context(), query))(t).ID, v.ID)
	for range v.MaxAttempts - 1 {
		check(Right(v.ID), 1, 3, result{keyReused: true})
		check(Right(v.ID), 1, 2, result{repeated: true})
	}
	check(Right(v.ID), 1, 3, result{keyReused: true})
	check(Right(v.ID), 1, 2, result{keyReused: true})
	other := f.Admit(t, f.Intent(2)).Verification
	for _, c := range []store.CheckRequest{withKey(Wrong(other.ID), 1, 1), Wrong(other.ID), withKey(Wrong(other.ID), 1, 1)} {
		Equal(t, "counted, since the last one had no key", Must(f.Check(t.Context(), c))(t).Counted, true)
	}
	own, refused := errors.New("of the caller"), Wrong(v.ID)
	refused.Judge = func(store.Verification, bool) (store.Judgement, error) { return store.Judgement{}, own }
	_, err := f.Check(t.Context(), refused)
	Equal(t, "error of Judge", err, own)
	Equal(t, "tries", f.Code(t, v.ID).Attempts, 3)
	OK(t, f.Erase(t.Context(), v.Recipient, time.Hour, f.Act()))
	erased := f.Code(t, v.ID)
	Equal(t, "checks and key of an erased recipient", []int{len(erased.Checks), len(erased.CheckKey)}, []int{0, 0})
}

// Wrong returns a check of a wrong code.
func Wrong(id string) store.CheckRequest {
	return store.CheckRequest{
		ID: id, Network: "192.0.2.0/24",
		Judge: func(store.Verification, bool) (store.Judgement, error) { return store.Judgement{}, nil },
	}
}

// withKey returns the check with hashes of a key and a code.
func withKey(c store.CheckRequest, key, code byte) store.CheckRequest {
	hashes := append(bytes.Repeat([]byte{key}, store.CheckKeyHashSize), bytes.Repeat([]byte{code}, store.CheckKeyHashSize)...)
	judge := c.Judge
	c.Key, c.Judge = hashes[:store.CheckKeyHashSize], func(v store.Verification, counts bool) (store.Judgement, error) {
		j, err := judge(v, counts)
		j.CheckKey = hashes
		return j, err
	}
	return c
}

// Right returns a check of the right code. events has the event of its approval, if there is one.
func Right(id string, events ...store.NewEvent) store.CheckRequest {
	c := Wrong(id)
	c.Judge = func(_ store.Verification, counts bool) (store.Judgement, error) {
		return store.Judgement{Right: counts, Event: append(events, store.NewEvent{})[0]}, nil
	}
	return c
}

// approve approves a verification, which must be open.
func (f *Fixture) approve(t *testing.T, id string) {
	t.Helper()
	got := Must(f.Check(t.Context(), Right(id)))(t)
	Equal(t, "approved", got.Approved, true)
	Equal(t, "as read", got.Verification, f.Code(t, id))
}

func cancelOrApprove(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "ends", f.atOnce(t, 50, func(db *sqldb.DB, i int) (bool, error) {
		if i%4 > 1 {
			got, err := db.Check(t.Context(), Right(v.ID))
			return got.Approved, err
		}
		return db.Cancel(t.Context(), v.ID)
	}), 1)
	got := f.Code(t, v.ID)
	Equal(t, "canceled and not approved, or the other way round", got.CanceledAt.IsZero() != got.ApprovedAt.IsZero(), true)
	done := f.Admit(t, f.Intent(1)).Verification
	f.approve(t, done.ID)
	Equal(t, "canceled after its approval", Must(f.Cancel(t.Context(), done.ID))(t), false)
	late := f.Admit(t, f.Intent(2)).Verification
	f.Pass(10 * time.Minute)
	Equal(t, "canceled when it has just expired", Must(f.Cancel(t.Context(), late.ID))(t), false)
}

// redeemedOnce approves a verification and lets 50 requests redeem its proof at once. One of them
// must succeed, and so must its repetition. A request without a key has no repetition.
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
	Equal(t, "redeemed", f.atOnce(t, 50, func(db *sqldb.DB, i int) (bool, error) {
		won, err := db.Redeem(t.Context(), v.ID, []byte{byte(i + 1)})
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
	f.Pass(time.Second)
	Equal(t, "repeated", Must(f.Replica.Redeem(t.Context(), v.ID, got.RedeemedBy))(t), true)
	Equal(t, "after the repetition", f.Code(t, v.ID), got)
	redeem(other.ID, false)
	Equal(t, "redeemed without a key, then with one", Must(f.Redeem(t.Context(), other.ID, []byte{1}))(t), false)
}

func newestOfHolder(t *testing.T, f *Fixture) {
	held := func(in *store.Intent) { in.Verification.Holder, in.MinLife = "s:1", time.Hour } // no send joins an earlier verification
	older := f.Admit(t, f.Intent(1, held)).Verification
	f.Pass(time.Second)
	newer := f.Admit(t, f.Intent(1, held)).Verification
	query := store.RecipientVerificationsQuery{App: "shop", Channel: recipient.Email, Recipient: newer.Recipient, Purpose: "login", Holder: "s:1"}
	Equal(t, "newest", Must(f.VerificationToCheck(t.Context(), query))(t), newer)
	useTries(t, f, newer.ID, 5)
	Equal(t, "the one that has tries left", Must(f.VerificationToCheck(t.Context(), query))(t), older)
	f.Pass(10*time.Minute - time.Second)
	Is(t, Err(f.VerificationToCheck(t.Context(), query)), fault.NotFound)
}

// tryOnce checks a wrong code and returns whether the check counted. If it didn't, the reason must
// be a lockout: the verification must be pending.
func tryOnce(t *testing.T, f *Fixture, id string) bool {
	t.Helper()
	got := Must(f.Check(t.Context(), Wrong(id)))(t)
	if !got.Counted && (!rowrules.IsPending(got.Verification, got.Now) || got.Lockout.Wait <= 0) {
		t.Fatalf("not counted, and not because of the bound: %s", Show(got))
	}
	return got.Counted
}

func (f *Fixture) checkLockedOut(t *testing.T, v store.Verification, want time.Duration) {
	t.Helper()
	got := Must(f.Lockout(t.Context(), v))(t)
	Equal(t, "locked out for", got.Wait, want)
	Equal(t, "class", got.Class, v.Class)
}

// refuseLockedOut begins a send that must be refused, since its recipient is locked out.
func (f *Fixture) refuseLockedOut(t *testing.T, in store.Intent, want store.Lockout) {
	t.Helper()
	before := len(f.All(t))
	begun := f.MustBegin(t, in)
	Equal(t, "admitted", begun.Admitted, false)
	Equal(t, "lockout", begun.Lockout, want)
	Equal(t, "rows", len(f.All(t)), before)
	Is(t, err3(f.Verification(t.Context(), in.Verification.ID)), fault.NotFound)
}

func ofClass(class store.Class) func(*store.Intent) {
	return func(in *store.Intent) { in.Verification.Class = class }
}

var byBrowser, byKnown = ofClass(store.StrangerClass), ofClass(store.KnownBrowser)

// spendAllTries opens verifications of recipient n, one second apart, and uses all their attempts.
func (f *Fixture) spendAllTries(t *testing.T, n, verifications int, changes ...func(*store.Intent)) (all []store.Verification) {
	t.Helper()
	for range verifications {
		v := f.Admit(t, f.Intent(n, changes...)).Verification
		useTries(t, f, v.ID, 5)
		all = append(all, v)
		f.Pass(time.Second)
	}
	return all
}

func failuresOfARecipient(t *testing.T, f *Fixture) {
	spent := f.spendAllTries(t, 1, 3)
	last, fresh := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(1)).Verification
	useTries(t, f, last.ID, 4)
	f.checkLockedOut(t, last, 0)
	f.Admit(t, f.Intent(1))
	Equal(t, "the twentieth", tryOnce(t, f, last.ID), true)
	Equal(t, "another code gives a new try", tryOnce(t, f, fresh.ID), false)
	Equal(t, "tries of the other code", f.Code(t, fresh.ID).Attempts, 0)
	end := spent[0].CreatedAt.Add(rowrules.FailedCheckWindow)
	f.checkLockedOut(t, fresh, end.Sub(f.Now))
	f.refuseLockedOut(t, f.Intent(1), store.Lockout{Wait: end.Sub(f.Now), Failures: rowrules.FailedCheckLimit})
	// the rules refuse first, so the answer doesn't tell how often codes were guessed
	byRule := f.Refuse(t, f.Intent(1, WithRules(Rule(1, time.Hour))))
	Equal(t, "lockout, history", []any{byRule.Lockout, len(byRule.History) > 1}, []any{store.Lockout{}, true})
	f.refuseLockedOut(t, f.Intent(1, Joining(fresh.ID)), store.Lockout{Wait: end.Sub(f.Now), Failures: rowrules.FailedCheckLimit})
	others := f.Admit(t, f.Intent(2)).Verification
	Equal(t, "another recipient", tryOnce(t, f, others.ID), true)

	f.Pass(end.Sub(f.Now) - time.Microsecond)
	f.checkLockedOut(t, fresh, time.Microsecond)
	f.refuseLockedOut(t, f.Intent(1), store.Lockout{Wait: time.Microsecond, Failures: rowrules.FailedCheckLimit})
	f.Pass(time.Microsecond)
	f.checkLockedOut(t, fresh, 0)
	late := f.Admit(t, f.Intent(1)).Verification
	useTries(t, f, late.ID, 5) // as many as those of spent[0], which no longer count
	f.checkLockedOut(t, fresh, spent[1].CreatedAt.Add(rowrules.FailedCheckWindow).Sub(f.Now))
}

// failuresByClass checks that failed checks of one class's codes lock out only codes of that class,
// whichever caller enters or sends them.
func failuresByClass(t *testing.T, f *Fixture) {
	theirs, own := f.Admit(t, f.Intent(1, byBrowser)).Verification, f.Admit(t, f.Intent(1)).Verification
	known := f.Admit(t, f.Intent(1, byKnown)).Verification
	Equal(t, "opened by", []store.Class{theirs.Class, known.Class, own.Class},
		[]store.Class{store.StrangerClass, store.KnownBrowser, store.SecretKeyClass})
	spent := f.spendAllTries(t, 1, 4, byBrowser)
	wait := spent[0].CreatedAt.Add(rowrules.FailedCheckWindow).Sub(f.Now)
	f.checkLockedOut(t, theirs, wait)
	f.checkLockedOut(t, own, 0)
	f.checkLockedOut(t, known, 0)
	Equal(t, "a browser's code", tryOnce(t, f, theirs.ID), false)
	Equal(t, "a known browser's code", tryOnce(t, f, known.ID), true)
	Equal(t, "a back end's code", tryOnce(t, f, own.ID), true)
	f.refuseLockedOut(t, f.Intent(1, byBrowser),
		store.Lockout{Class: store.StrangerClass, Wait: wait, Failures: rowrules.FailedCheckLimit})
	f.Admit(t, f.Intent(1))
	// the joined verification's class is not locked out
	Equal(t, "joined", f.Admit(t, f.Intent(1, byBrowser, Joining(own.ID))).Verification.ID, own.ID)
	f.refuseLockedOut(t, f.Intent(1, Joining(theirs.ID)),
		store.Lockout{Class: store.StrangerClass, Wait: wait, Failures: rowrules.FailedCheckLimit})
	// spent[0] has no attempts left, so the send opens a verification of a back end
	Equal(t, "opened", f.Admit(t, f.Intent(1, Joining(spent[0].ID))).Verification.Class, store.SecretKeyClass)

	useTries(t, f, own.ID, 4)
	f.spendAllTries(t, 1, 3)
	Equal(t, "a known browser's code", tryOnce(t, f, known.ID), true)
	f.checkLockedOut(t, own, own.CreatedAt.Add(4*time.Second).Add(rowrules.FailedCheckWindow).Sub(f.Now))
	f.checkLockedOut(t, theirs, theirs.CreatedAt.Add(rowrules.FailedCheckWindow).Sub(f.Now))
	f.reset(t, ana)
	f.checkLockedOut(t, own, 0)
	f.checkLockedOut(t, theirs, 0)
	Equal(t, "a browser's code, after the reset", tryOnce(t, f, theirs.ID), true)
	f.Admit(t, f.Intent(1, byBrowser))
}

func failuresApart(t *testing.T, f *Fixture) {
	right := f.Admit(t, f.Intent(1)).Verification
	v, w := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(1)).Verification
	signup := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.Purpose = "signup" })).Verification
	f.spendAllTries(t, 1, 3)
	useTries(t, f, right.ID, 4)
	f.approve(t, right.ID)
	Equal(t, "a right answer is no failure", tryOnce(t, f, v.ID), true)
	Equal(t, "at the bound", tryOnce(t, f, v.ID), false)
	cancel(t, f, v.ID)
	Equal(t, "canceling gives nothing back", tryOnce(t, f, w.ID), false)
	for what, change := range map[string]func(*store.Intent){
		"another app":     func(in *store.Intent) { in.Send.App = "other" },
		"another channel": func(in *store.Intent) { in.Send.Channel = recipient.SMS },
	} {
		apart := f.Admit(t, f.Intent(1, change)).Verification
		Equal(t, what, tryOnce(t, f, apart.ID), true)
	}
	Equal(t, "another purpose", tryOnce(t, f, signup.ID), false)
	Equal(t, "its send", f.MustBegin(t, f.Intent(1, func(in *store.Intent) { in.Send.Purpose = "signup" })).Admitted, false)
}

// failuresInARow checks that a hundred failed checks in a row lock out for a month, on whatever
// days and in whatever classes they were made.
func failuresInARow(t *testing.T, f *Fixture) {
	var first []store.Verification
	for _, by := range []func(*store.Intent){byBrowser, byKnown, byBrowser, func(*store.Intent) {}} {
		first = append(first, f.spendAllTries(t, 1, 4, by)...)
		f.Pass(rowrules.FailedCheckWindow + 11*time.Minute)
	}
	last := f.spendAllTries(t, 1, 3)
	almost, theirs := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(1, byBrowser)).Verification
	useTries(t, f, almost.ID, 4)
	Equal(t, "the hundredth", tryOnce(t, f, almost.ID), true)
	Equal(t, "a code of another class", tryOnce(t, f, theirs.ID), false)
	f.Pass(last[0].ExpiresAt.Add(rowrules.FailedCheckWindow).Sub(f.Now) + 11*time.Minute)
	wait := first[0].CreatedAt.Add(rowrules.ConsecutiveFailedCheckWindow).Sub(f.Now)
	f.refuseLockedOut(t, f.Intent(1), store.Lockout{Wait: wait, Failures: rowrules.ConsecutiveFailedCheckLimit})
	f.checkLockedOut(t, almost, wait)
	f.refuseLockedOut(t, f.Intent(1, byKnown),
		store.Lockout{Class: store.KnownBrowser, Wait: wait, Failures: rowrules.ConsecutiveFailedCheckLimit})

	f.Pass(first[0].ExpiresAt.Add(rowrules.ConsecutiveFailedCheckWindow).Sub(f.Now))
	free := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "a month later", tryOnce(t, f, free.ID), true)
}
