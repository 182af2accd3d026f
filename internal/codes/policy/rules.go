package policy

import (
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// browserRules limit browsers by their network, in addition to the policy. Without them, a public
// key could be copied from a page and used for any number of recipients. The limits leave room for
// an office or a mobile network behind one address. A rule of the policy with the same scope
// replaces a browser rule.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// BreakerScope is the scope of the breaker, a rule on all sends of all apps, policies and channels.
// The breaker limits how many messages a stolen key or a loop in a client can send.
const BreakerScope quota.Scope = "everything"

// BreakerName is the name of the breaker's rule in answers.
const BreakerName = "breaker"

// Request has the properties of a request for a code that decide its rules, apart from the purpose.
type Request struct {
	App         string
	Channel     recipient.Channel
	Class       store.Class
	NamesClient bool // the request names the end user's client; if not, rules that count by the client are left out
	Test        bool // its address is a test recipient's
}

// RulesFor returns the rules that decide a request, with the limits for this request, in the order
// of the response:
//
//   - the rules of the purpose's policy
//   - BackoffRule, if one of these refuses by failures
//   - without a secret key, each of browserRules with a scope that has no rule yet
//   - the rule on spellings for strangers, and the breaker for all requests, if they are configured
//
// A test recipient has only the rules on recipients; these count events and refuse nothing. Package
// buckets then assigns each rule to a gate, and no later step changes the rules.
func (s Set) RulesFor(p Purpose, from Request) []quota.Rule {
	rules := make([]quota.Rule, 0, len(p.Policy.Rules)+len(browserRules)+3)
	add := func(r quota.Rule) { // names in answers must be unique
		for slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Name == r.Name }) {
			r.Name += "_"
		}
		rules = append(rules, r)
	}
	has := func(is func(quota.Rule) bool) bool { return slices.ContainsFunc(rules, is) }
	for _, r := range p.Policy.Rules {
		r.Limit -= s.reserve(p, from, r)
		r.Observe = r.Observe || from.Test
		rules = append(rules, r)
	}
	if has(func(r quota.Rule) bool { return r.Scope == quota.Failures && !r.Observe }) {
		add(BackoffRule)
	}
	for _, r := range browserRules {
		if from.Class != store.SecretKeyClass && !has(func(own quota.Rule) bool { return own.Scope == r.Scope }) {
			add(r)
		}
	}
	if from.Class.IsStranger() && s.Spellings.Limit > 0 {
		add(s.Spellings)
	}
	if breaker := s.Breaker; breaker.Limit > 0 {
		if IsStrangerInScope(from.Class, breaker.Scope) {
			breaker.Limit -= s.BreakerReserve
		}
		rules = append(rules, breaker)
	}
	return slices.DeleteFunc(rules, func(r quota.Rule) bool {
		switch {
		case from.Test:
			return r.Scope != quota.Recipient
		case CountsByClient(r.Scope):
			return !from.NamesClient
		case from.Channel == recipient.SMS:
			return r.Scope == SpellingsScope
		}
		return r.Scope == quota.Country || r.Scope == quota.Prefix
	})
}

// IsStrangerInScope reports whether callers of a class are strangers to a rule or cap of a scope,
// so that they may not use its reserve. Unknown browsers are strangers in every scope. Known
// browsers are strangers in every scope except recipient. The reason: a browser is known for one
// recipient only, and the owner of a mail domain can make a browser known for any number of
// addresses.
func IsStrangerInScope(class store.Class, scope quota.Scope) bool {
	return class.IsStranger() || class == store.KnownBrowser && scope != quota.Recipient
}

// reserve returns how many of a rule's last places a request may not use. In a rule on failures,
// unknown browsers may not use half of the places, rounded up, but may use the only place. In any
// other rule, callers that are strangers in its scope may not use the configured reserve. In an app
// that strangers cannot reach, a built-in policy has no reserve. In all other cases it returns 0.
func (s Set) reserve(p Purpose, from Request, r quota.Rule) int {
	switch {
	case r.Scope == quota.Failures:
		if from.Class.IsStranger() {
			return r.Limit - max(1, r.Limit/2)
		}
	case IsStrangerInScope(from.Class, r.Scope) && (!p.BuiltIn || s.Apps[from.App].ReachedByStrangers):
		return p.Reserve[r.Name]
	}
	return 0
}

// Pass says how a request has passed a human check. It decides which share of the strangers' places
// the request may use, in scopes that many recipients share.
type Pass int

// The passes. Limits count the sends with and without a pass together.
const (
	NoPass   Pass = iota // half of the places, rounded up
	WorkPass             // three quarters, rounded up: by work, while a vendor answers
	FullPass             // all places; also of a request that is not asked
)

// Below returns the rules that have a lower limit for requests of a class with the pass, each with
// that limit. A rule of one recipient keeps its limit, and so does a rule that only observes.
func (p Pass) Below(class store.Class, rules []quota.Rule) (lower []quota.Rule) {
	for _, r := range rules {
		if limit := p.Limit(class, r); limit < r.Limit {
			r.Limit = limit
			lower = append(lower, r)
		}
	}
	return lower
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
var recipientScopes = []quota.Scope{quota.Recipient, quota.Failures, quota.Backoff, SpellingsScope}

// IsWiderScope reports whether a scope counts the sends of many recipients together. If such a rule
// refuses a browser, the refusal is the same for every recipient.
func IsWiderScope(scope quota.Scope) bool { return !slices.Contains(recipientScopes, scope) }

// CountsByClient reports whether a scope counts by a property of the client that a back end need
// not name. If the back end does not name it, the rule is left out, since the back end's own
// property would stand for all its users. Such a rule has no reserve by default.
func CountsByClient(scope quota.Scope) bool { return scope == quota.IP || scope == quota.Network }

// BackoffName is the name of BackoffRule in answers.
const BackoffName = "backoff"

// BackoffRule bounds the sends to one recipient that failed, and were refunded, for another reason
// than the recipient's address: a pause, a mail server that refuses the service, a wrong setting.
// So a loop does not flood such a server. The rule counts the sends of each class of callers
// separately, so that strangers do not use up the places of other callers. Package gates, in
// backoff.go, says which sends it no longer counts.
var BackoffRule = quota.Rule{Name: BackoffName, Scope: quota.Backoff, Limit: 20, Window: time.Hour}

// FailedCheckRules bound the failed checks of a client's networks and of an app.
type FailedCheckRules struct {
	Network     quota.Rule // scope IP
	WideNetwork quota.Rule // scope Network
	App         quota.Rule // scope App; refuses no check
}

// The database counts the sends of a recipient (scope recipient), and the sends that failed because
// of the address (scope failures). All other scopes are counted only by the limiter.

// CountedInDatabase reports whether the database counts the events of the rule's scope.
func CountedInDatabase(r quota.Rule) bool {
	return r.Scope == quota.Recipient || r.Scope == quota.Failures
}

// A mailbox has many spellings: tags after a plus, dots at some providers. Each spelling is a
// recipient, so strangers could flood a mailbox through its spellings. Therefore the rule on
// spellings counts all requests of unknown browsers to one mailbox together; see recipient.Hashes.
// It neither counts nor refuses requests of known browsers and secret keys. Only the limiter
// decides it, as for all rules for browsers.

// SpellingsScope is the scope of the rule on spellings: it counts the requests by unknown browsers
// of one app to all spellings of one mailbox, for all purposes.
const SpellingsScope quota.Scope = "spellings"

// SpellingsName is the name of the rule on spellings in answers.
const SpellingsName = "spellings"
