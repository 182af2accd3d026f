package delivery

// Attempts tracks a message that is offered to one server or carrier after the other. It decides
// whether the message may be offered to the next one, and what the final outcome is. For each
// server or carrier that is considered, call one of Note, Postpone, Skip and Decline, in the order
// in which they are considered. In this file, "server" also means a carrier.
type Attempts struct {
	used, acceptedBy []string // see Error.MayGoElsewhere
	allAsideErr      error    // the outcome's Err if no server was tried or postponed, and one was skipped

	last         outcome // the last attempt; its Provider is empty before the first one
	goesOn       bool    // the last server did not accept the message, and another server may
	shortestWait outcome // the Temporary failure with the shortest RetryAfter; of equal ones the later
	postponed    *Error  // the failure with the shortest RetryAfter that Postpone noted; of equal ones the earlier
	declined     *Error
	skipped      bool
	busy         bool
}

type outcome struct {
	Result
	fail *Error
}

// NewAttempts returns Attempts to which no server was offered yet. used and acceptedBy are the
// parameters of Error.MayGoElsewhere. allAsideErr is the error that says that every server is set
// aside.
func NewAttempts(used, acceptedBy []string, allAsideErr error) *Attempts {
	return &Attempts{used: used, acceptedBy: acceptedBy, allAsideErr: allAsideErr, goesOn: true}
}

const errOthersAside = SafeError("a server or carrier that may take the message is set aside or busy, and the others refuse it")

// Note records an attempt at a server. It reports whether the message may be offered to another
// server: after a Temporary failure, because the message was certainly not accepted, and if
// Error.MayGoElsewhere says so.
func (a *Attempts) Note(r Result, fail *Error) (goesOn bool) {
	temporary := fail != nil && fail.Class == Temporary
	a.last, a.goesOn = outcome{r, fail}, temporary || fail.MayGoElsewhere(r.Provider, a.used, a.acceptedBy)
	if temporary && (a.shortestWait.fail == nil || fail.RetryAfter <= a.shortestWait.fail.RetryAfter) {
		a.shortestWait = a.last
	}
	return a.goesOn
}

// Postpone records a server that was not tried, because the service may send to it only after
// fail.RetryAfter (ErrPace).
func (a *Attempts) Postpone(fail *Error) {
	if a.postponed == nil || fail.RetryAfter < a.postponed.RetryAfter {
		a.postponed = fail
	}
}

// Skip records a server that was not tried, because it is set aside or, if busy is true, because it
// has no connection free for the message. It may accept the message at any time.
func (a *Attempts) Skip(busy bool) { a.skipped, a.busy = true, a.busy || busy }

// Decline records a server that was not tried for a reason of this service, such as a spend cap. Of
// several reasons, Outcome returns a Temporary one if there is one, otherwise the first.
func (a *Attempts) Decline(fail *Error) {
	if a.declined == nil || fail.Class == Temporary {
		a.declined = fail
	}
}

// Outcome returns the result and failure of the last attempt, unless the message may be offered to
// another server. Then it returns, in this order:
//
//   - If a server may accept the message later, a Temporary failure, so that the caller tries
//     again. It is the failure with the shortest RetryAfter. After Skip its RetryAfter is 0, except
//     that a server that is set aside does not shorten the wait of Postpone. If only skipped
//     servers may accept the message, its stage is StageAllSetAside.
//   - The reason of Decline.
//   - Otherwise, the failure of the last attempt.
func (a *Attempts) Outcome() (Result, *Error) {
	if !a.goesOn {
		return a.last.Result, a.last.fail
	}
	wait, postponed := a.shortestWait, false
	switch {
	case a.postponed != nil && (wait.fail == nil || !a.busy && a.postponed.RetryAfter < wait.fail.RetryAfter):
		wait, postponed = outcome{fail: a.postponed}, true
	case a.skipped && wait.fail == nil:
		wait.fail = &Error{Class: Temporary, Stage: StageAllSetAside, Err: a.allAsideErr}
		if a.last.fail != nil {
			wait.fail.Err = errOthersAside
		}
	}
	switch {
	case wait.fail != nil:
		if a.busy || a.skipped && !postponed {
			wait.fail.RetryAfter = 0
		}
		return wait.Result, wait.fail
	case a.declined != nil:
		return a.last.Result, a.declined
	}
	return a.last.Result, a.last.fail
}
