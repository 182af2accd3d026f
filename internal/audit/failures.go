package audit

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"
)

// The bound on failed checks (SEC-7): of one recipient's codes, over all verifications of an app and channel that callers of
// one kind opened (browsers, or secret keys), at most FailureLimit tries fail in any FailureWindow. The kinds are counted apart,
// so that wrong codes of browsers lock out no back end. A try is a failure from the moment that it is counted, before anything
// is compared; an approved verification has one failure less than tries. A failure counts until FailureWindow after
// its code's life ended, so the time of each try need not be kept: that is at most one life longer than it must.
const (
	FailureLimit  = 20
	FailureWindow = 24 * time.Hour
)

// At most RowLimit tries fail in a row, with no right code between them, in any RowWindow (SEC-7, NIST SP 800-63B): who
// guesses day after day is stopped for a month.
const (
	RowLimit  = 100
	RowWindow = 30 * 24 * time.Hour
)

// tried is a verification as the bounds see it.
type tried struct {
	expiresAt  time.Time
	approvedAt time.Time
	attempts   int
	forgiven   int // of the attempts
	byBrowser  bool
}

// failures are the tries that were wrong and that nobody forgave: the right one may be among those forgiven, or not.
func (t tried) failures() int {
	n := t.attempts - t.forgiven
	if !t.approvedAt.IsZero() {
		n--
	}
	return max(0, n)
}

// Lockout is what the bounds on failed checks say of a recipient's codes that callers of one kind opened.
type Lockout struct {
	ByBrowser bool          // the kind: browsers, or secret keys
	Wait      time.Duration // until a code can be tried; 0: now
	Failures  int           // tries that failed, as the bound that locks out longer counts them
}

// lockoutOf is the wait until both bounds let a code be tried.
func lockoutOf(list []tried, now time.Time) Lockout {
	day := Lockout{Wait: bound(list, now, FailureWindow, FailureLimit), Failures: failuresOf(list, now, FailureWindow)}
	row := inARow(list)
	if wait := bound(row, now, RowWindow, RowLimit); wait > day.Wait {
		return Lockout{Wait: wait, Failures: failuresOf(row, now, RowWindow)}
	}
	return day
}

// inARow are the verifications without a right code whose life did not end before the last right one.
func inARow(list []tried) (row []tried) {
	var last time.Time
	for _, t := range list {
		if t.approvedAt.After(last) {
			last = t.approvedAt
		}
	}
	for _, t := range list {
		if t.approvedAt.IsZero() && t.expiresAt.After(last) {
			row = append(row, t)
		}
	}
	return row
}

// bound is the wait until fewer than limit failures count.
func bound(list []tried, now time.Time, window time.Duration, limit int) time.Duration {
	list, count := slices.Clone(list), failuresOf(list, now, window)
	slices.SortFunc(list, func(a, b tried) int { return cmp.Compare(a.expiresAt.UnixMicro(), b.expiresAt.UnixMicro()) })
	wait := time.Duration(0)
	for _, t := range list {
		if count < limit {
			break
		}
		if t.counts(now, window) {
			count, wait = count-t.failures(), t.expiresAt.Add(window).Sub(now)
		}
	}
	return wait
}

// ofKind are those that callers of one kind opened.
func ofKind(list []tried, byBrowser bool) (some []tried) {
	for _, t := range list {
		if t.byBrowser == byBrowser {
			some = append(some, t)
		}
	}
	return some
}

// failuresOf counts the failures within the window.
func failuresOf(list []tried, now time.Time, window time.Duration) (n int) {
	for _, t := range list {
		if t.counts(now, window) {
			n += t.failures()
		}
	}
	return n
}

func (t tried) counts(now time.Time, window time.Duration) bool { return now.Sub(t.expiresAt) < window }

// of names the kind of the verification that a lockout is about.
func (l Lockout) of(v Verification) Lockout {
	l.ByBrowser = v.ByBrowser
	return l
}

// Attempt implements Verifications.
func (s *SQLite) Attempt(ctx context.Context, id string) (v Verification, counted bool, at time.Time, err error) {
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		at = now
		v, err = sqliteVerification(ctx, tx, id)
		if err != nil || !pending(v, now) {
			return err
		}
		out, err := sqliteLockedOut(ctx, tx, v, now)
		if err != nil || out.Wait > 0 {
			return err
		}
		v.Attempts++
		counted = true
		_, err = tx.ExecContext(ctx, `UPDATE verifications SET attempts = $1 WHERE id = $2`, v.Attempts, id)
		return err
	})
	if err != nil {
		return Verification{}, false, time.Time{}, err
	}
	return v, counted, at, nil
}
