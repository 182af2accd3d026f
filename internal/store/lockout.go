package store

import "time"

// Lockout is what the bounds on failed checks say of a recipient's codes that callers of one kind opened.
type Lockout struct {
	ByBrowser bool          // the kind: browsers, or secret keys
	Wait      time.Duration // until a code can be tried; 0: now
	Failures  int           // tries that failed, as the bound that locks out longer counts them
}

// For names the kind of the verification that a lockout is about.
func (l Lockout) For(v Verification) Lockout {
	l.ByBrowser = v.ByBrowser
	return l
}
