package verification

import (
	"sendcode/internal/policy"
	"sendcode/quota"
)

// Public returns the part of a decision that the caller may see. The states of a recipient's rules reveal whether and when others
// requested a code for it. So a browser sees them only after a send of its own, which costs quota and reaches the recipient. own is
// the state of the verification that the caller names or has just opened; empty: none.
//
// A secret key sees every public rule. So does a browser while its verification is pending, but the rule on spellings only while
// that refuses. Any other browser sees only the rule that refuses it, if one does.
func Public(d quota.Decision, c Caller, own State) quota.Decision {
	d = d.Public()
	if c.Kind == Secret {
		return d
	}
	d = policy.WithoutSpellings(d)
	if own == Pending {
		return d
	}
	rule, refused := publicRefusal(d)
	d.Rules = nil
	if refused {
		rule.Used, rule.ResetAfter = rule.Limit, rule.RetryAfter // hides by how much the limit was exceeded
		d.Rules = []quota.State{rule}
	}
	return d
}

// publicRefusal returns the rule that a browser sees of a refusal: the rule of a wider scope that blocks longest or, if none blocks, the
// recipient's. So a client over its own limits gets the same answer for every recipient.
func publicRefusal(d quota.Decision) (quota.State, bool) {
	wide := d
	wide.Rules = nil
	for _, s := range d.Rules {
		if wider(s.Scope) {
			wide.Rules = append(wide.Rules, s)
		}
	}
	if s, blocks := wide.Blocking(); blocks {
		return s, true
	}
	return d.Blocking()
}

// wider reports whether a scope counts the events of many recipients. Unknown scopes count as the recipient's.
func wider(s quota.Scope) bool {
	switch s.Base() {
	case quota.IP, quota.Network, quota.App, quota.Purpose, quota.Country, quota.Prefix, quota.Global, policy.Everything:
		return true
	}
	return false
}
