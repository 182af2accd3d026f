package store

import ()

// The two ways in which a verification is ended. Both change one that is open, and nothing else; they differ in what they
// write down.

// Late is an act on a verification that had ended.
func (a Act) Late() Act {
	a.Outcome, a.Detail = ActFailed, "ended"
	return a
}
