package policy

import (
	"net/netip"
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// browserRules limit browsers by their network, in addition to the policy. Else a public key, which
// can be copied from a page, could be used for one recipient after the other. The limits leave room
// for an office or a mobile network behind one address. A rule of the policy with the same scope
// replaces them.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// BreakerScope is the scope of the breaker, a rule on all sends of all apps, policies and channels.
// It limits what a stolen key or a loop in a client can send.
const BreakerScope quota.Scope = "everything"

// BreakerName is the name of the breaker's rule in answers.
const BreakerName = "breaker"

// ForBrowser returns the purpose with the rules for requests of browsers of a class to an app:
// those of WithLimits, each of browserRules whose scope the policy does not limit, and, if
// configured, the breaker, the rule on all sends, and, for unknown browsers, the rule that counts
// all spellings of one mailbox together. To a rule that takes the class for strangers, the limit is
// less by the rule's reserve; see IsStrangerInScope.
func (s Set) ForBrowser(p Purpose, app string, class store.Class) Purpose {
	spellings := s.Spellings
	if !class.IsStranger() {
		spellings = quota.Rule{}
	}
	p.Policy.Rules = s.withBreaker(withBrowserRules(s.WithLimits(p, app, class).Policy.Rules, spellings), class)
	return p
}

// IsStrangerInScope reports whether a rule or cap of a scope takes callers of a class for
// strangers, who may not use its reserve: those that Class.IsStranger names and, unless the scope
// is recipient, known browsers. A browser is known for one recipient: with the mails of a whole
// domain, one browser is known for each address there.
func IsStrangerInScope(class store.Class, scope quota.Scope) bool {
	return class.IsStranger() || class == store.KnownBrowser && scope != quota.Recipient
}

// WithLimits returns the purpose with the rules of its policy and BackoffRule, and with the limits
// for callers of a class to an app: each is less by what reserve returns.
func (s Set) WithLimits(p Purpose, app string, class store.Class) Purpose {
	rules := p.Policy.Rules
	if class != store.SecretKey {
		rules = slices.Clone(rules)
		for i, r := range rules {
			rules[i].Limit -= s.reserve(p, app, class, r)
		}
	}
	p.Policy.Rules = withBackoff(rules)
	return p
}

// reserve returns how many last places of a rule callers of a class may not use: of a rule on
// failures unknown browsers half, but not the only place; of any other rule strangers its reserve,
// and none of a built-in policy in an app that no stranger reaches.
func (s Set) reserve(p Purpose, app string, class store.Class, r quota.Rule) int {
	switch {
	case r.Scope == quota.Failures:
		if class.IsStranger() {
			return r.Limit - max(1, r.Limit/2)
		}
	case IsStrangerInScope(class, r.Scope) && (!p.BuiltIn || s.Apps[app].ReachedByStrangers):
		return p.Reserve[r.Name]
	}
	return 0
}

// ForBackEnd returns the purpose with the rules for requests of a back end: those of its policy and
// the breaker, or those of ForBrowser if it acts for strangers, that is for the class
// UnknownBrowser. If the end user's address is not given, it removes rules on addresses and
// networks, since the back end's own address stands for all its users.
func (s Set) ForBackEnd(p Purpose, app string, class store.Class, client netip.Addr) Purpose {
	if class == store.SecretKey {
		p.Policy.Rules = s.withBreaker(s.WithLimits(p, app, class).Policy.Rules, class)
	} else {
		p = s.ForBrowser(p, app, class)
	}
	p.Policy.Rules = withoutRules(p.Policy.Rules, func(r quota.Rule) bool {
		return !client.IsValid() && (r.Scope == quota.IP || r.Scope == quota.Network)
	})
	return p
}

// Observing returns the purpose with its rules of scope recipient alone, which count and refuse
// nothing.
func (p Purpose) Observing() Purpose {
	p.Policy.Rules = quota.OfScope(p.Policy.Rules, quota.Recipient)
	for i := range p.Policy.Rules {
		p.Policy.Rules[i].Observe = true
	}
	return p
}

// BackoffName is the name of BackoffRule in answers.
const BackoffName = "backoff"

// BackoffRule bounds sends to one recipient that failed, and gave their place back, for a reason
// that is not its address: a pause, a refusal of the mail server for what we are, a mistake in the
// settings. So a loop does not hammer a server that refuses us. It counts the sends of one class of
// callers, so that strangers use up nobody else's; see gates.Gates.RecordBackoff for when it
// forgets.
var BackoffRule = quota.Rule{Name: BackoffName, Scope: quota.Backoff, Limit: 20, Window: time.Hour}

// withBackoff adds BackoffRule to rules of which one on failures is enforced.
func withBackoff(rules []quota.Rule) []quota.Rule {
	if FailureRule(rules).Limit == 0 {
		return rules
	}
	return append(slices.Clip(rules), withUniqueName(rules, BackoffRule))
}

// withBreaker returns the rules and, if there is one, the breaker with its limit for callers of a
// class.
func (s Set) withBreaker(rules []quota.Rule, class store.Class) []quota.Rule {
	breaker := s.Breaker
	if breaker.Limit == 0 {
		return rules
	}
	if IsStrangerInScope(class, breaker.Scope) {
		breaker.Limit -= s.BreakerReserve
	}
	return append(slices.Clip(rules), breaker)
}

func withBrowserRules(rules []quota.Rule, spellings quota.Rule) []quota.Rule {
	all := slices.Clip(rules)
	for _, r := range browserRules {
		if slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Scope == r.Scope }) {
			continue
		}
		all = append(all, withUniqueName(rules, r))
	}
	if spellings.Limit > 0 {
		all = append(all, withUniqueName(rules, spellings))
	}
	return all
}

// withUniqueName renames r until no rule of the policy has the same name, since names in answers
// must be unique.
func withUniqueName(rules []quota.Rule, r quota.Rule) quota.Rule {
	for slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Name == r.Name }) {
		r.Name += "_"
	}
	return r
}

// CheckRules bound the failed checks of a client's networks and of an app.
type CheckRules struct {
	Network     quota.Rule // scope IP
	WideNetwork quota.Rule // scope Network
	App         quota.Rule // scope App; refuses no check
}

// The database counts the sends of a recipient (scope recipient) and its failed sends (scope
// failures). Only the limiter counts other scopes.

// CountedInDatabase reports whether the database has the events of the rule's scope.
func CountedInDatabase(r quota.Rule) bool {
	return r.Scope == quota.Recipient || r.Scope == quota.Failures
}

// ForDatabase returns the rules of the scope recipient that the database decides too: those that do
// not observe. The database also decides FailureRule.
func ForDatabase(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(quota.OfScope(rules, quota.Recipient), func(r quota.Rule) bool { return r.Observe })
}

// ForLimiterAlone returns the rules that the database does not decide: those of other scopes, and
// the observing rules on recipients. All rules on failures are left out. The database decides
// FailureRule; without the limiter, the other rules on failures do not refuse sends.
func ForLimiterAlone(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r quota.Rule) bool {
		return r.Scope == quota.Failures || r.Scope == quota.Recipient && !r.Observe
	})
}

// FailureRule returns the rule on failed sends that the database decides: the first that does not
// observe. If there is none, its Limit is 0.
func FailureRule(rules []quota.Rule) quota.Rule {
	for _, r := range rules {
		if r.Scope == quota.Failures && !r.Observe {
			return r
		}
	}
	return quota.Rule{}
}

// ExplainedByDatabase returns the rules whose state can be computed from the database: those of the
// scope recipient, and FailureRule.
func ExplainedByDatabase(rules []quota.Rule) []quota.Rule {
	failures := FailureRule(rules)
	return slices.DeleteFunc(slices.Clone(rules), func(r quota.Rule) bool {
		return r.Scope != quota.Recipient && (failures.Limit == 0 || r != failures)
	})
}

// A mailbox has many spellings: tags after a plus, dots at some providers. Each spelling is a
// recipient, so strangers could flood a mailbox through them. So one rule for unknown browsers
// counts all their requests to spellings of a mailbox together; see recipient.Hashes. Known
// browsers and secret keys are neither refused by it nor counted in it. Like all rules for
// browsers, only the limiter decides it, together with the other rules.

// SpellingsScope is the scope of the rule on spellings: it counts the requests by unknown browsers
// of one app to all spellings of one mailbox, for all purposes.
const SpellingsScope quota.Scope = "spellings"

// SpellingsName is the name of the rule on spellings in answers.
const SpellingsName = "spellings"

// WithoutSpellings returns a decision, with a list of rules of its own, without the rule on
// spellings unless that refuses.
func WithoutSpellings(d quota.Decision) quota.Decision {
	d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool {
		return s.Scope == SpellingsScope &&
			s.RetryAfter == 0
	})
	return d
}
