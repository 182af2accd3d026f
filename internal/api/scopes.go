package api

import "slices"

// Scope is one thing that a secret key may do.
type Scope string

// The scopes.
const (
	ScopeSend  Scope = "send"  // ask for codes, and cancel them
	ScopeCheck Scope = "check" // check codes, and redeem what proves it
	ScopeRead  Scope = "read"  // look at verifications, quotas and channels
	ScopeLimit Scope = "limit" // take, peek and record under /v1/limits
)

// Scopes are all that there are.
var Scopes = []Scope{ScopeSend, ScopeCheck, ScopeRead, ScopeLimit}

// has reports whether the key may do what the scope is for. A key that names no scope may do everything that its kind may.
func (k *Key) has(needed Scope) bool { return len(k.Scopes) == 0 || slices.Contains(k.Scopes, needed) }
