package gate

import (
	"slices"
	"time"

	"sendcode/internal/store"
)

// The bound on failed checks: of one recipient's codes, over all verifications of an app and channel that callers of
// one kind opened (browsers, or secret keys), at most FailureLimit tries fail in any FailureWindow. The kinds are counted apart,
// so that wrong codes of browsers lock out no back end. A try is a failure from the moment that it is counted, before anything
// is compared; an approved verification has one failure less than tries. A failure counts until FailureWindow after
// its code's life ended, so the time of each try need not be kept: that is at most one life longer than it must.
const (
	FailureLimit  = 20
	FailureWindow = 24 * time.Hour
)

// At most RowLimit tries fail in a row, with no right code between them, in any RowWindow (NIST SP 800-63B): guessing
// day after day is stopped for a month.
const (
	RowLimit  = 100
	RowWindow = 30 * 24 * time.Hour
)

// failedTries counts the wrong tries that were not forgiven. One try of an approved verification was right and is not counted.
func failedTries(t store.Verification) int {
	n := t.Attempts - t.Forgiven
	if !t.ApprovedAt.IsZero() {
		n--
	}
	return max(0, n)
}

// LockoutOf returns how long no code can be tried until both bounds on failed checks (per day, and in a row) allow it again, and
// the failures that the longer bound counts.
func LockoutOf(list []store.Verification, now time.Time) store.Lockout {
	day := store.Lockout{Wait: waitBelow(list, now, FailureWindow, FailureLimit), Failures: countFailures(list, now, FailureWindow)}
	row := unbrokenRow(list)
	if wait := waitBelow(row, now, RowWindow, RowLimit); wait > day.Wait {
		return store.Lockout{Wait: wait, Failures: countFailures(row, now, RowWindow)}
	}
	return day
}

// unbrokenRow returns the verifications that belong to the present row of failures: not approved, and not expired when the newest right
// code was entered.
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

// OpenedBy returns the verifications that were opened by a browser, or those opened with a secret key.
func OpenedBy(list []store.Verification, byBrowser bool) []store.Verification {
	return slices.DeleteFunc(slices.Clone(list), func(t store.Verification) bool { return t.ByBrowser != byBrowser })
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
