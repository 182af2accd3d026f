package verification

import (
	"sendcode/internal/policy"
	"sendcode/quota"
)

// Public is the part of a decision that a caller may read. The state of a recipient's rules says whether and when others asked for
// a code for it, so a browser reads it only after a send of its own, which costs quota and reaches the recipient. own is the
// state of the verification that the caller names, or has just opened; empty: it names none.
//
// A secret key, and a browser while its verification is pending, read every rule, the browser the one on spellings only while
// that refuses. Any other browser reads the one rule that refuses it, and nothing where none does.
func Public(d quota.Decision, c Caller, own State) quota.Decision {
	d = d.Public()
	if c.Kind == Secret {
		return d
	}
	d = policy.WithoutSpellings(d)
	if own == Pending {
		return d
	}
	rule, refused := refusing(d)
	d.Rules = nil
	if refused {
		rule.Used, rule.ResetAfter = rule.Limit, rule.RetryAfter // more would say how far the limit was passed
		d.Rules = []quota.State{rule}
	}
	return d
}

// refusing is the rule that a browser reads of a refusal: of the rules that are wider than the recipient the one that blocks
// longest, and the recipient's only where no wider one blocks. So the answer to an exhausted client is the same for every
// recipient.
func refusing(d quota.Decision) (quota.State, bool) {
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

// wider reports whether a scope counts the events of many recipients. A scope that is not listed is taken for the recipient's.
func wider(s quota.Scope) bool {
	switch s.Base() {
	case quota.IP, quota.Network, quota.App, quota.Purpose, quota.Country, quota.Prefix, quota.Global, policy.Everything:
		return true
	}
	return false
}
