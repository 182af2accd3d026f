package gate

import (
	"slices"
	"time"

	"sendcode/internal/store"
)

// The bound on failed checks in a day: at most FailureLimit checks of one recipient's codes may fail in any FailureWindow, in one app and
// channel, and for one class of callers that opened the verifications. The classes are counted separately, so that wrong codes from
// strangers' browsers lock out neither back ends nor known browsers. An approved verification has one failed check less than Attempts. The
// times of checks are not stored: a failure counts until FailureWindow after its code expired, which is at most the life of a code too
// long.
const (
	FailureLimit  = 20
	FailureWindow = 24 * time.Hour
)

// The bound on failed checks in a row: at most RowLimit checks may fail with no right code between them, in any RowWindow, of all classes
// together (NIST SP 800-63B). So guessing a few codes each day does not go on for ever.
const (
	RowLimit  = 100
	RowWindow = 30 * 24 * time.Hour
)

// failedTries returns the number of failed checks that were not forgiven. One check of an approved verification was right and is not
// counted.
func failedTries(t store.Verification) int {
	n := t.Attempts - t.Forgiven
	if !t.ApprovedAt.IsZero() {
		n--
	}
	return max(0, n)
}

// DecideCheck decides a check of v. tried are the verifications with checks of its recipient, of all classes; now is on the database's
// clock. The caller writes the check if it is Counted, and the approval and the event if it is Approved. Errors: those of Judge.
func DecideCheck(c store.CheckRequest, v store.Verification, tried []store.Verification, now time.Time) (d store.Checked, err error) {
	d = store.Checked{Verification: v, Now: now}
	if Pending(v, now) {
		d.Lockout = LockoutOf(tried, v.Class, now)
		d.Counted = d.Lockout.Wait <= 0
	}
	right, tell, err := c.Judge(v, d.Counted)
	if !d.Counted {
		return d, err
	}
	d.Verification.Attempts++
	d.Verification.Checks = append(slices.Clip(v.Checks), store.Check{At: now, Network: c.Network})
	if right {
		d.Approved, d.Event, d.Verification.ApprovedAt = true, tell, now
	}
	return d, err
}

// LockoutOf returns the lockout of a class that follows from the recipient's verifications, of all classes. Wait is the longer wait of the
// two bounds (in a day, and in a row), and Failures are those that this bound counts.
func LockoutOf(all []store.Verification, class store.Class, now time.Time) store.Lockout {
	own := slices.DeleteFunc(slices.Clone(all), func(t store.Verification) bool { return t.Class != class })
	day := store.Lockout{Class: class, Wait: waitBelow(own, now, FailureWindow, FailureLimit),
		Failures: countFailures(own, now, FailureWindow)}
	row := unbrokenRow(all)
	if wait := waitBelow(row, now, RowWindow, RowLimit); wait > day.Wait {
		return store.Lockout{Class: class, Wait: wait, Failures: countFailures(row, now, RowWindow)}
	}
	return day
}

// unbrokenRow returns the verifications whose failures are in a row with no right code after them: those that are not approved and that
// expired, or will expire, after the newest right code was entered.
func unbrokenRow(list []store.Verification) (row []store.Verification) {
	var last time.Time
	for _, t := range list {
		if t.ApprovedAt.After(last) {
			last = t.ApprovedAt
		}
	}
	for _, t := range list {
		if t.ApprovedAt.IsZero() && t.ExpiresAt.After(last) {
			row = append(row, t)
		}
	}
	return row
}

// waitBelow returns the wait until fewer than limit failures count; 0 means now. A verification's failures count until its expiry plus
// window.
func waitBelow(list []store.Verification, now time.Time, window time.Duration, limit int) time.Duration {
	list, count := slices.Clone(list), countFailures(list, now, window)
	slices.SortFunc(list, func(a, b store.Verification) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	wait := time.Duration(0)
	for _, t := range list {
		if count < limit {
			break
		}
		if stillCounts(t, now, window) {
			count, wait = count-failedTries(t), t.ExpiresAt.Add(window).Sub(now)
		}
	}
	return wait
}

// countFailures adds up the failures of the verifications that still count at now.
func countFailures(list []store.Verification, now time.Time, window time.Duration) (n int) {
	for _, t := range list {
		if stillCounts(t, now, window) {
			n += failedTries(t)
		}
	}
	return n
}

func stillCounts(t store.Verification, now time.Time, window time.Duration) bool {
	return now.Sub(t.ExpiresAt) < window
}
