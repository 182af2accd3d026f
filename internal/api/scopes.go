package api

import "slices"

// Scope is one thing that a secret key may do.
type Scope string

// The scopes.
const (
	ScopeSend  Scope = "send"  // request codes, and cancel verifications
	ScopeCheck Scope = "check" // check codes, and redeem proofs
	ScopeRead  Scope = "read"  // read verifications, quotas and channels
	ScopeLimit Scope = "limit" // take, peek and record under /v1/limits
)

// Scopes lists all scopes.
var Scopes = []Scope{ScopeSend, ScopeCheck, ScopeRead, ScopeLimit}

// has reports whether the key has the scope. A key without scopes has all.
func (k *Key) has(needed Scope) bool { return len(k.Scopes) == 0 || slices.Contains(k.Scopes, needed) }
