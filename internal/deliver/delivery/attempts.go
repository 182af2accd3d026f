package delivery

// Attempts decide, while a message is offered to one server or carrier after the other, whether it
// may be offered to the next one, and what the outcome of all is. Call one of Note, Postpone, Skip
// and Decline for each server, in the order in which they are asked.
type Attempts struct {
	used, took []string // see Error.MayGoElsewhere
	aside      error    // the outcome's Err if nothing was tried, and a server was skipped

	last     outcome // the last one; its Provider is empty before the first
	goesOn   bool    // the last one did not accept the message, and another server may
	soonest  outcome // the Temporary failure with the shortest RetryAfter; of equal ones the later
	paced    *Error  // of those that Postpone noted, the one with the shortest RetryAfter; of equal ones the earlier
	declined *Error
	skipped  bool
	busy     bool
}

type outcome struct {
	Result
	fail *Error
}

// NewAttempts returns Attempts without any yet. used and took are those of Error.MayGoElsewhere.
// aside says that every server is set aside.
func NewAttempts(used, took []string, aside error) *Attempts {
	return &Attempts{used: used, took: took, aside: aside, goesOn: true}
}

const errOthersAside = SafeError("a server or carrier that may take the message is set aside or busy, and the others refuse it")

// Note notes an attempt. It reports whether the message may be offered to another server: after a
// Temporary failure, because the message was certainly not accepted, and if Error.MayGoElsewhere
// says so.
func (a *Attempts) Note(r Result, fail *Error) (goesOn bool) {
	temporary := fail != nil && fail.Class == Temporary
	a.last, a.goesOn = outcome{r, fail}, temporary || fail.MayGoElsewhere(r.Provider, a.used, a.took)
	if temporary && (a.soonest.fail == nil || fail.RetryAfter <= a.soonest.fail.RetryAfter) {
		a.soonest = a.last
	}
	return a.goesOn
}

// Postpone notes a server that would take the message after fail.RetryAfter.
func (a *Attempts) Postpone(fail *Error) {
	if a.paced == nil || fail.RetryAfter < a.paced.RetryAfter {
		a.paced = fail
	}
}

// Skip notes a server that was not asked, because it is busy or else set aside. It may take the
// message at any time.
func (a *Attempts) Skip(busy bool) { a.skipped, a.busy = true, a.busy || busy }

// Decline notes a server that was not asked for a reason of ours. Of several reasons a Temporary
// one counts, then the first.
func (a *Attempts) Decline(fail *Error) {
	if a.declined == nil || fail.Class == Temporary {
		a.declined = fail
	}
}

// Outcome returns the result and failure of the last attempt, unless the message may be offered to
// another server. Then it returns, in this order:
//
//   - If a server may take the message later, a Temporary failure, so that the caller tries again:
//     the one with the shortest RetryAfter. That is 0 after Skip, except that a server that is set
//     aside does not shorten the wait of Postpone. After Skip alone, its stage is StageAllSetAside.
//   - The reason of Decline.
//   - The failure of the last attempt, which no other server changed.
func (a *Attempts) Outcome() (Result, *Error) {
	if !a.goesOn {
		return a.last.Result, a.last.fail
	}
	wait, paced := a.soonest, false
	switch {
	case a.paced != nil && (wait.fail == nil || !a.busy && a.paced.RetryAfter < wait.fail.RetryAfter):
		wait, paced = outcome{fail: a.paced}, true
	case a.skipped && wait.fail == nil:
		wait.fail = &Error{Class: Temporary, Stage: StageAllSetAside, Err: a.aside}
		if a.last.fail != nil {
			wait.fail.Err = errOthersAside
		}
	}
	switch {
	case wait.fail != nil:
		if a.busy || a.skipped && !paced {
			wait.fail.RetryAfter = 0
		}
		return wait.Result, wait.fail
	case a.declined != nil:
		return a.last.Result, a.declined
	}
	return a.last.Result, a.last.fail
}
