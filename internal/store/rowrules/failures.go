package rowrules

import (
	"bytes"
	"slices"
	"time"

	"sendcode/internal/store"
)

// In any FailedCheckWindow, at most FailedCheckLimit checks of a recipient's codes may fail, for
// each app, channel and class. The class is that of the caller who opened the verification, so
// wrong codes from strangers' browsers lock out neither back ends nor known browsers. A failure
// counts from the check on, however long the code lives.
const (
	FailedCheckLimit  = 20
	FailedCheckWindow = 24 * time.Hour
)

// In any ConsecutiveFailedCheckWindow, at most ConsecutiveFailedCheckLimit checks may fail without
// a right code between them, of all classes together (NIST SP 800-63B). It stops an attacker who
// guesses a few codes a day.
const (
	ConsecutiveFailedCheckLimit  = 100
	ConsecutiveFailedCheckWindow = 30 * 24 * time.Hour
)

// DecideCheck decides a check of v; tried has the recipient's verifications with checks, of all
// classes. now is on the database's clock. If the answer is Counted, the caller writes the check,
// the approval and the event; if KeyReused, it writes CheckKey. Errors: those of Judge.
func DecideCheck(c store.CheckRequest, v store.Verification, tried []store.Verification,
	now time.Time,
) (d store.CheckAnswer, err error) {
	d = store.CheckAnswer{Verification: v, Now: now}
	repeated := len(c.Key) > 0 && bytes.HasPrefix(v.CheckKey, c.Key)
	if !repeated && IsPending(v, now) {
		d.Lockout = LockoutOf(tried, v.Class, now)
		d.Counted = d.Lockout.Wait <= 0
	}
	judged, err := c.Judge(v, d.Counted)
	switch {
	case err != nil:
		return store.CheckAnswer{}, err
	case repeated && bytes.HasPrefix(v.CheckKey, judged.CheckKey):
		d.Repeated = true
	case repeated:
		d.KeyReused, d.Verification.CheckKey = true, checkKeyAfterReuse(v)
	case d.Counted:
		d.Approved, d.Event, d.Verification.CheckKey = judged.Right, judged.Event, judged.CheckKey
		d.Verification.Attempts++
		d.Verification.Checks = append(slices.Clip(v.Checks), store.Check{At: now, Network: c.Network})
		if judged.Right {
			d.Verification.ApprovedAt = now
		}
	}
	return d, nil
}

// checkKeyAfterReuse returns the CheckKey of v after a check with the same Idempotency-Key and
// another code. Such a check costs no attempt, but adds a byte to CheckKey. At the greatest length
// only the first hash stays, and no check can repeat the counted one any more. Otherwise, a caller
// that knows the key could try any number of codes until it finds the approved one.
func checkKeyAfterReuse(v store.Verification) []byte {
	const hashes = 2 * store.CheckKeyHashSize
	if n := len(v.CheckKey); n < hashes || n >= hashes+v.MaxAttempts-1 {
		return v.CheckKey[:store.CheckKeyHashSize]
	}
	return append(slices.Clip(v.CheckKey), 0)
}

// LockoutOf returns the lockout of a class, by the failures of the class within FailedCheckWindow
// or by the consecutive failures of all classes, whichever has the longer wait.
func LockoutOf(all []store.Verification, class store.Class, now time.Time) store.Lockout {
	var last time.Time // the newest right code; only later failures are consecutive
	for _, t := range all {
		if t.ApprovedAt.After(last) {
			last = t.ApprovedAt
		}
	}
	var day, row []time.Time
	for _, t := range all {
		for _, at := range failedCheckTimes(t) {
			age := now.Sub(at)
			if age < FailedCheckWindow && t.Class == class {
				day = append(day, at)
			}
			if age < ConsecutiveFailedCheckWindow && at.After(last) && t.ApprovedAt.IsZero() {
				row = append(row, at)
			}
		}
	}
	inDay := store.Lockout{Class: class, Failures: len(day), Wait: waitUntilBelow(FailedCheckLimit, day, FailedCheckWindow, now)}
	if wait := waitUntilBelow(ConsecutiveFailedCheckLimit, row, ConsecutiveFailedCheckWindow, now); wait > inDay.Wait {
		return store.Lockout{Class: class, Failures: len(row), Wait: wait}
	}
	return inDay
}

// failedCheckTimes leaves out checks before a reset, and the right one. If an erasure has removed
// the times, each failure has the time of the expiry.
func failedCheckTimes(t store.Verification) (failed []time.Time) {
	n := t.Attempts
	if !t.ApprovedAt.IsZero() {
		n--
	}
	for i := t.AttemptsReset; i < n; i++ {
		at := t.ExpiresAt
		if i < len(t.Checks) {
			at = t.Checks[i].At
		}
		failed = append(failed, at)
	}
	return failed
}

func waitUntilBelow(limit int, failed []time.Time, window time.Duration, now time.Time) time.Duration {
	if len(failed) < limit {
		return 0
	}
	slices.SortFunc(failed, time.Time.Compare)
	return failed[len(failed)-limit].Add(window).Sub(now)
}
