package policy

import (
	"net/netip"
	"slices"
	"time"

	"sendcode/quota"
)

// A public key can be taken from a page, or the page's own button pressed, for one recipient after the other. So what comes from
// browsers is limited by where it comes from, whatever the policy says of recipients. The limits leave room for an office or a
// mobile network behind one address; a policy with rules of its own for the scope goes by those alone.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// Everything is the scope of the breaker: all sends of all apps, policies and channels. A lost key or a loop in a client can send
// no more than it allows.
const Everything quota.Scope = "everything"

// BreakerName is the breaker's among the rules of an answer.
const BreakerName = "breaker"

// ForBrowser is the purpose as a browser's requests go by it.
func (s Set) ForBrowser(p Purpose) Purpose {
	p.Policy.Rules = s.withBreaker(forBrowsers(p.Policy.Rules, s.Spellings))
	return p
}

// ForBackEnd is the purpose without the rules that do not apply to a back end: those for browsers alone and, if the request names no
// client, those on addresses and networks, since all clients of a back end share its address.
func (s Set) ForBackEnd(p Purpose, client netip.Addr) Purpose {
	rules := without(p.Policy.Rules, func(r quota.Rule) bool {
		return r.Scope.Browsers() || !client.IsValid() && (r.Scope == quota.IP || r.Scope == quota.Network)
	})
	p.Policy.Rules = s.withBreaker(rules)
	return p
}

func (s Set) withBreaker(rules []quota.Rule) []quota.Rule {
	if s.Breaker.Limit > 0 {
		return append(slices.Clip(rules), s.Breaker)
	}
	return rules
}

func forBrowsers(rules []quota.Rule, spellings quota.Rule) []quota.Rule {
	all := slices.Clip(rules)
	for _, r := range browserRules {
		if slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Scope.Base() == r.Scope }) {
			continue
		}
		all = append(all, unlike(rules, r))
	}
	if spellings.Limit > 0 {
		all = append(all, unlike(rules, spellings))
	}
	return all
}

// unlike has a name that no rule of the policy has: answers name each rule once.
func unlike(rules []quota.Rule, r quota.Rule) quota.Rule {
	for slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Name == r.Name }) {
		r.Name += "_"
	}
	return r
}

// Checks bound the failed checks of a client's networks and of an app.
type Checks struct {
	Network     quota.Rule // scope IP
	WideNetwork quota.Rule // scope Network
	App         quota.Rule // scope App; refuses no check
}

// DefaultChecks are wide enough for an office behind one address and for a busy app, and stop a machine.
func DefaultChecks() Checks {
	return Checks{
		Network:     quota.Rule{Name: "network", Scope: quota.IP, Limit: 100, Window: time.Hour},
		WideNetwork: quota.Rule{Name: "wide_network", Scope: quota.Network, Limit: 300, Window: time.Hour},
		App:         quota.Rule{Name: "app", Scope: quota.App, Limit: 10_000, Window: time.Hour},
	}
}

// ChecksOrDefault are the bounds of failed checks in force.
func (s Set) ChecksOrDefault() Checks {
	if s.Checks == (Checks{}) {
		return DefaultChecks()
	}
	return s.Checks
}

// Counted by the log are the sends of a recipient (scope recipient) and its failed sends (scope failures). Everything else is the
// limiter's alone.

// InLog says whether the log has the events of the rule's scope.
func InLog(r quota.Rule) bool { return r.Scope == quota.Recipient || r.Scope == quota.Failures }

// ForLog are the recipient's rules that the log decides as well: not those that observe. FailureRule is its other one.
func ForLog(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(quota.OfScope(rules, quota.Recipient), func(r quota.Rule) bool { return r.Observe })
}

// ForLimiterAlone are the rules that only the limiter decides. While it is away, a rule that observes failures is decided nowhere.
func ForLimiterAlone(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r quota.Rule) bool {
		return r.Scope == quota.Failures || r.Scope == quota.Recipient && !r.Observe
	})
}

// FailureRule is the rule on failed sends that the log decides; without a limit there is none.
func FailureRule(rules []quota.Rule) quota.Rule {
	for _, r := range rules {
		if r.Scope == quota.Failures && !r.Observe {
			return r
		}
	}
	return quota.Rule{}
}

// ExplainedByLog are the rules whose state the log can tell.
func ExplainedByLog(rules []quota.Rule) []quota.Rule {
	own := quota.OfScope(rules, quota.Recipient)
	if r := FailureRule(rules); r.Limit > 0 {
		own = append(own, r)
	}
	return own
}
