package policy

import (
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

// browserRules are rules for browsers that apply in addition to the rules of the policy. They limit
// how many codes browsers of one network can request. Without browserRules, a stranger could copy a
// public key from a page and send codes to any number of recipients. The limits are high enough for
// an office or a mobile network behind one address. A rule of the policy replaces the browser rule
// with the same scope.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// UnnamedScope counts the sends of an app's strangers for whom the back end named no client_ip.
const UnnamedScope quota.Scope = "unnamed"

// UnnamedRule limits the sends that no rule on networks counts, because the back end left out
// client_ip. Together they are one network. Without this rule, one person at the form of such a
// back end could send codes to any number of recipients.
var UnnamedRule = quota.Rule{Name: string(UnnamedScope), Scope: UnnamedScope, Limit: 1000, Window: time.Hour}

// BreakerScope is the scope of the breaker. The breaker is a rule on all sends of all apps,
// policies and channels. It limits how many messages can be sent by a stolen key, or by a client in
// a loop.
const BreakerScope quota.Scope = "everything"

// BreakerName is the name of the breaker's rule in answers.
const BreakerName = "breaker"

// CarrierName is the name of the rule that an answer shows if the carrier would refuse messages
// to the recipient for some time.
const CarrierName = "carrier"

// LockoutName is the rule name under which a refusal by a lockout is recorded. A lockout starts
// after too many wrong codes for a recipient. Each class of callers that request codes has its own
// lockout.
const LockoutName = "checks"

// The rules of a lockout. Package rowrules decides them. The first one counts for each class of
// callers separately. The second one counts all failed checks since the last right code.
var (
	LockoutRule = quota.Rule{
		Name: LockoutName, Scope: quota.Recipient, Limit: rowrules.FailedCheckLimit, Window: rowrules.FailedCheckWindow,
	}
	LongLockoutRule = quota.Rule{
		Name: LockoutName, Scope: quota.Recipient, Limit: rowrules.ConsecutiveFailedCheckLimit,
		Window: rowrules.ConsecutiveFailedCheckWindow,
	}
)

// Request has the properties of a request that decide which rules apply to it. The purpose is not
// part of Request.
type Request struct {
	App         string
	Channel     recipient.Channel
	Class       store.Class
	NamesClient bool // the request names the end user's client; if false, rules that count by client are left out
	Test        bool // its address is a test recipient's
}

// RulesFor returns the rules for a request. Their limits are those for this request, without the
// places that the request may not use (see reserve). The rules are in the order of the response:
//
//   - the rules of the purpose's policy
//   - BackoffRule, if the policy has a rule on failures that can refuse a request
//   - for a request without a secret key, each rule of browserRules whose scope has no rule yet
//   - for a stranger for whom the back end named no address, UnnamedRule
//   - the breaker, if it is configured
//
// Rules that cannot apply to the request are left out, such as a rule on the country of a mail. For
// a test recipient, RulesFor returns only the rules on recipients, and these rules count events but
// refuse no request. Package buckets then decides for each rule whether the limiter or the database
// decides it.
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
	if from.Class.IsStranger() && !from.NamesClient {
		add(UnnamedRule)
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
		}
		return from.Channel != recipient.SMS && (r.Scope == quota.Country || r.Scope == quota.Prefix)
	})
}

// IsStrangerInScope reports whether callers of a class are strangers for a rule or cap with this
// scope. Strangers may not use the reserve of the rule. Unknown browsers are strangers in every
// scope.
//
// Known browsers are strangers in every scope except recipient, because a browser is known for one
// recipient only. Also, the owner of a mail domain can make a browser known for any number of
// addresses.
func IsStrangerInScope(class store.Class, scope quota.Scope) bool {
	return class.IsStranger() || class == store.KnownBrowser && scope != quota.Recipient
}

// reserve returns how many places of a rule's limit are closed to a request. These are the last
// places, so the request is refused while other callers are still admitted:
//
//   - In a rule on failures, half of the places, rounded up, are closed to unknown browsers. But if
//     the rule has only one place, it is open to them.
//   - In any other rule, the configured reserve is closed to strangers. These are unknown browsers
//     and, unless the rule's scope is the recipient, also known browsers (see IsStrangerInScope). A
//     built-in policy has no reserve in an app that strangers cannot reach.
//   - In all other cases, reserve returns 0.
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

// Pass says how a request has passed a human check. The pass decides how many of the places for
// strangers the request may use. It matters only in scopes that count the sends of many recipients
// together.
type Pass int

// The passes. Limits count the sends with and without a pass together.
const (
	NoPass   Pass = iota // half of the places, rounded up
	WorkPass             // three quarters, rounded up: by work, while a vendor answers
	FullPass             // all places; also of a request that is not asked
)

// Below returns the rules whose limit for requests of this class with this pass is lower than the
// rule's own limit. Each returned rule has the lower limit. Rules on one recipient and rules that
// only observe have no lower limit, so Below leaves them out.
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

// recipientScopes count the sends to one recipient.
var recipientScopes = []quota.Scope{quota.Recipient, quota.Failures, quota.Backoff}

// IsWiderScope reports whether a scope counts the sends of many recipients together. If a rule with
// such a scope refuses a browser, it refuses this browser for every recipient.
func IsWiderScope(scope quota.Scope) bool { return !slices.Contains(recipientScopes, scope) }

// CountsByClient reports whether a scope counts by the network address of the client. A back end
// may leave out the address of its user. Then rules with the scope do not apply, because the back
// end's own address would stand for all of its users. By default, such a rule has no reserve, since
// a stranger can use up the limit of only one network.
func CountsByClient(scope quota.Scope) bool { return scope == quota.IP || scope == quota.Network }

// BackoffName is the name of BackoffRule in answers.
const BackoffName = "backoff"

// BackoffRule limits the sends to one recipient that failed for a reason that is not the
// recipient's address. Such a reason is a stop of the channel or purpose (reason `paused`), a mail
// server that refuses the service, or a wrong setting. These sends are refunded, so the other rules
// on the recipient do not slow down repeated sends. Without BackoffRule, a client in a loop could
// flood the mail server.
//
// The rule counts the sends of each class of callers separately, so that strangers do not use up
// the places of other callers. backoff.go in package gates says when the rule stops counting a
// send.
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
