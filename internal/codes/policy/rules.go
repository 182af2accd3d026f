package policy

import (
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// browserRules limit browsers by their network, in addition to the policy. Without them, a public
// key, which can be copied from a page, could be used for any number of recipients. The limits
// leave room for an office or a mobile network behind one address. A rule of the policy with the
// same scope replaces a browser rule.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// BreakerScope is the scope of the breaker, a rule on all sends of all apps, policies and channels.
// The breaker limits how many messages a stolen key or a loop in a client can send.
const BreakerScope quota.Scope = "everything"

// BreakerName is the name of the breaker's rule in answers.
const BreakerName = "breaker"

// ForBrowser returns the purpose with the rules for requests of browsers of a class to an app:
// first those of ForClass, then each of browserRules whose scope the policy does not limit. The
// breaker, and for unknown browsers the rule on spellings, are added if they are configured. In a
// scope in which the class counts as strangers, a limit is lower by the rule's reserve; see
// IsStrangerInScope.
func (s Set) ForBrowser(p Purpose, app string, class store.Class) Purpose {
	spellings := s.Spellings
	if !class.IsStranger() {
		spellings = quota.Rule{}
	}
	p.Policy.Rules = s.withBreaker(withBrowserRules(s.ForClass(p, app, class).Policy.Rules, spellings), class)
	return p
}

// IsStrangerInScope reports whether callers of a class are strangers to a rule or cap of a scope,
// so that they may not use its reserve. Unknown browsers always are. Known browsers are, unless the
// scope is recipient: a browser is known for one recipient only, and the owner of a mail domain can
// make a browser known for each of any number of addresses.
func IsStrangerInScope(class store.Class, scope quota.Scope) bool {
	return class.IsStranger() || class == store.KnownBrowser && scope != quota.Recipient
}

// ForClass returns the purpose with the rules of its policy and BackoffRule, and with the limits
// for callers of a class to an app: the policy's limits, each less the rule's reserve.
func (s Set) ForClass(p Purpose, app string, class store.Class) Purpose {
	rules := p.Policy.Rules
	if class != store.SecretKeyClass {
		rules = slices.Clone(rules)
		for i, r := range rules {
			rules[i].Limit -= s.reserve(p, app, class, r)
		}
	}
	p.Policy.Rules = withBackoff(rules)
	return p
}

// reserve returns how many last places of a rule callers of a class may not use. Of a rule on
// failures, unknown browsers may not use half of the places, rounded up, but may use the only
// place. Of another rule, callers that are strangers in its scope may not use the configured
// reserve; in an app that strangers cannot reach, a built-in policy has no reserve. In all other
// cases it returns 0.
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

// Pass is what a request has shown of a human check. By it, the request may use a share of the
// places that strangers have in a scope that many recipients share.
type Pass int

// The passes. Limits count the sends with and without a pass together.
const (
	NoPass   Pass = iota // half of the places, rounded up
	WorkPass             // three quarters, rounded up: by work, while a vendor answers
	FullPass             // all places; also of a request that is not asked
)

// ForPass returns the purpose with the limits for requests of a class with a pass. A rule of one
// recipient, and one that only observes, keeps its limit.
func (p Purpose) ForPass(class store.Class, pass Pass) Purpose {
	if pass != FullPass {
		p.Policy.Rules = slices.Clone(p.Policy.Rules)
		for i, r := range p.Policy.Rules {
			p.Policy.Rules[i].Limit = pass.Limit(class, r)
		}
	}
	return p
}

// Limit returns the limit of a rule for requests of a class with the pass.
func (p Pass) Limit(class store.Class, r quota.Rule) int {
	switch {
	case p == FullPass || r.Observe || !IsWiderScope(r.Scope) || !IsStrangerInScope(class, r.Scope):
		return r.Limit
	case p == WorkPass:
		return r.Limit - r.Limit/4
	}
	return (r.Limit + 1) / 2
}

// RuleScopes are the scopes that a rule of a policy may have.
var RuleScopes = []quota.Scope{
	quota.Recipient, quota.IP, quota.Network, quota.App, quota.Purpose, quota.Country,
	quota.Prefix, quota.Global, quota.Failures,
}

// recipientScopes count the sends to one recipient, or to one mailbox.
var recipientScopes = []quota.Scope{quota.Recipient, quota.Failures, quota.Backoff, quota.FailedChecks, SpellingsScope}

// IsWiderScope reports whether a scope counts the sends of many recipients together. A browser is
// told a refusal by such a rule for every recipient alike.
func IsWiderScope(scope quota.Scope) bool { return !slices.Contains(recipientScopes, scope) }

// CountsByClient reports whether a scope counts by a property of the client that a back end need
// not name. Then the rule is left out, since the back end's own property would stand for all its
// users. Such a rule has no reserve by default.
func CountsByClient(scope quota.Scope) bool { return scope == quota.IP || scope == quota.Network }

// ForBackEnd returns the purpose with the rules for requests of a back end: those of ForClass and
// the breaker for store.SecretKeyClass, those of ForBrowser if the back end acts for strangers.
func (s Set) ForBackEnd(p Purpose, app string, class store.Class) Purpose {
	if class != store.SecretKeyClass {
		return s.ForBrowser(p, app, class)
	}
	p.Policy.Rules = s.withBreaker(s.ForClass(p, app, class).Policy.Rules, class)
	return p
}

// ForTestRecipient returns the purpose with its rules of the scope recipient alone, as observing
// rules: they count events and refuse nothing.
func (p Purpose) ForTestRecipient() Purpose {
	p.Policy.Rules = quota.OfScope(p.Policy.Rules, quota.Recipient)
	for i := range p.Policy.Rules {
		p.Policy.Rules[i].Observe = true
	}
	return p
}

// BackoffName is the name of BackoffRule in answers.
const BackoffName = "backoff"

// BackoffRule bounds the sends to one recipient that failed, and were refunded, for another reason
// than the recipient's address: a pause, a mail server's refusal of our service, a mistake in the
// settings. So a loop does not flood a server that refuses us. The rule counts the sends of each
// class of callers separately, so that strangers do not use up the places of other callers.
// Package gates, in backoff.go, says which sends it no longer counts.
var BackoffRule = quota.Rule{Name: BackoffName, Scope: quota.Backoff, Limit: 20, Window: time.Hour}

// withBackoff adds BackoffRule to rules if one of them refuses by failures.
func withBackoff(rules []quota.Rule) []quota.Rule {
	if !slices.ContainsFunc(rules, func(r quota.Rule) bool { return r.Scope == quota.Failures && !r.Observe }) {
		return rules
	}
	return append(slices.Clip(rules), withUniqueName(rules, BackoffRule))
}

// withBreaker returns the rules and, if it is configured, the breaker with its limit for callers of
// a class.
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

// withUniqueName appends "_" to the name of r until none of the rules has the same name, since
// names in answers must be unique.
func withUniqueName(rules []quota.Rule, r quota.Rule) quota.Rule {
	for slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Name == r.Name }) {
		r.Name += "_"
	}
	return r
}

// FailedCheckRules bound the failed checks of a client's networks and of an app.
type FailedCheckRules struct {
	Network     quota.Rule // scope IP
	WideNetwork quota.Rule // scope Network
	App         quota.Rule // scope App; refuses no check
}

// The database counts the sends of a recipient (scope recipient) and the sends that failed because
// of its address (scope failures). Only the limiter counts other scopes.

// CountedInDatabase reports whether the database counts the events of the rule's scope.
func CountedInDatabase(r quota.Rule) bool {
	return r.Scope == quota.Recipient || r.Scope == quota.Failures
}

// ForLimiterAlone returns the rules that only the limiter decides: those of other scopes than
// recipient and failures.
func ForLimiterAlone(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(slices.Clone(rules), CountedInDatabase)
}

// ForDatabase returns the rules that the database decides.
func ForDatabase(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r quota.Rule) bool { return !CountedInDatabase(r) })
}

// A mailbox has many spellings: tags after a plus, dots at some providers. Each spelling is a
// recipient, so strangers could flood a mailbox through its spellings. Therefore the rule on
// spellings counts all requests of unknown browsers to one mailbox together; see recipient.Hashes.
// It neither counts nor refuses requests of known browsers and secret keys. Like all rules for
// browsers, it is decided by the limiter alone.

// SpellingsScope is the scope of the rule on spellings: it counts the requests by unknown browsers
// of one app to all spellings of one mailbox, for all purposes.
const SpellingsScope quota.Scope = "spellings"

// SpellingsName is the name of the rule on spellings in answers.
const SpellingsName = "spellings"

// WithoutSpellingsRule returns a decision without the rule on spellings, unless that rule refuses.
// The list of rules is a copy.
func WithoutSpellingsRule(d quota.Decision) quota.Decision {
	d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool {
		return s.Scope == SpellingsScope && s.RetryAfter == 0
	})
	return d
}
