package rowrules

import (
	"bytes"
	"slices"
	"time"

	"sendcode/internal/store"
)

// These constants limit the failed checks in a day. In any FailedCheckWindow, at most
// FailedCheckLimit checks of a recipient's codes may fail. The limit applies to each app, channel
// and class of callers separately. The class is that of the caller who opened the verification. So
// wrong codes from strangers' browsers lock out neither back ends nor known browsers. A failure
// counts from the instant of the check, however long the code lives.
const (
	FailedCheckLimit  = 20
	FailedCheckWindow = 24 * time.Hour
)

// These constants limit the failed checks in a row (NIST SP 800-63B). In any
// ConsecutiveFailedCheckWindow, at most ConsecutiveFailedCheckLimit checks may fail without a right
// code between them. The limit applies to all classes together. It stops an attacker who guesses a
// few codes each day.
const (
	ConsecutiveFailedCheckLimit  = 100
	ConsecutiveFailedCheckWindow = 30 * 24 * time.Hour
)

// DecideCheck decides the outcome of a check of v. The parameter tried has the recipient's
// verifications with checks, of all classes. The parameter now is the time on the database's clock.
// If the answer is Counted, the caller writes the check, the approval and the event. If the answer
// is KeyReused, the caller writes CheckKey. DecideCheck returns the errors of Judge.
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

// checkKeyAfterReuse returns the new CheckKey of v after a check with the same Idempotency-Key and
// another code. Such a check does not count as an attempt. Instead, it adds a byte to CheckKey. At
// the greatest length, only the first hash is kept, and no check can repeat the counted check.
// Without this limit, a caller that knows the key could guess an approved code without end.
func checkKeyAfterReuse(v store.Verification) []byte {
	const hashes = 2 * store.CheckKeyHashSize
	if n := len(v.CheckKey); n < hashes || n >= hashes+v.MaxAttempts-1 {
		return v.CheckKey[:store.CheckKeyHashSize]
	}
	return append(slices.Clip(v.CheckKey), 0)
}

// LockoutOf returns the lockout of a class. The parameter all has the recipient's verifications of
// all classes. One limit applies to failures in a day, the other to failures in a row. Wait and
// Failures belong to the limit with the longer wait.
func LockoutOf(all []store.Verification, class store.Class, now time.Time) store.Lockout {
	var last time.Time // time of the newest right code, which ends a row
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

// failedCheckTimes returns the times of a verification's failed checks. It leaves out checks before
// a reset, and the right check that approved the verification. If an erasure removed the times,
// each failure has the time of the expiry.
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

// waitUntilBelow returns how long it takes until the window has fewer than limit failures. If the
// window has fewer than limit failures now, waitUntilBelow returns 0.
func waitUntilBelow(limit int, failed []time.Time, window time.Duration, now time.Time) time.Duration {
	if len(failed) < limit {
		return 0
	}
	slices.SortFunc(failed, time.Time.Compare)
	return failed[len(failed)-limit].Add(window).Sub(now)
}
