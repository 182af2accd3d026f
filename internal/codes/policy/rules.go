package policy

import (
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

// browserRules apply to browsers, and to requests of back ends for strangers. If the policy has a
// rule with the same scope, that rule applies instead. Without these rules, a stranger could copy a
// public key from a page and send codes to any number of recipients. The limits are high enough for
// an office or a mobile network behind one address.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// These are the scopes of rules that package quota doesn't name.
const (
	CountryScope quota.Scope = "country" // one country of phone numbers
	PrefixScope  quota.Scope = "prefix"  // phone numbers that differ only in their last four digits

	FailuresScope     quota.Scope = "failures" // sends to one mailbox or phone that failed because it accepts no messages
	BackoffScope      quota.Scope = "backoff"  // sends to one mailbox or phone that failed for any other reason
	FailedChecksScope quota.Scope = "checks"   // wrong codes
)

// IsRecorded reports whether the scope's events are known only once a send or a check has failed.
// Rules of such a scope have quota.Rule.Recorded set, so a send that they admit isn't counted for
// them.
func IsRecorded(scope quota.Scope) bool {
	return scope == FailuresScope || scope == BackoffScope || scope == FailedChecksScope
}

// UnnamedScope counts an app's sends for strangers if the back end named no client_ip.
const UnnamedScope quota.Scope = "unnamed"

// UnnamedRule treats the strangers of UnnamedScope as one network. Without it, one person could use
// the form of such a back end to send codes to any number of recipients, because no rule on
// networks counts these requests.
var UnnamedRule = quota.Rule{Name: string(UnnamedScope), Scope: UnnamedScope, Limit: 1000, Window: time.Hour}

// BreakerScope is the scope of the breaker: a rule on all sends of all apps, policies and channels,
// against a stolen key, or a client in a loop.
const BreakerScope quota.Scope = "everything"

const BreakerName = "breaker"

// CarrierName is the rule's name in the answer to a send that a carrier's hold refuses.
const CarrierName = "carrier"

// LockoutName is the name of the rule under which a refusal after too many wrong codes is recorded.
const LockoutName = "checks"

// These are the rules of a lockout, which package rowrules decides. LockoutRule counts failed
// checks for each class of callers separately. LongLockoutRule counts all failed checks since the
// last right code.
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
	NamesClient bool // the request names the end user's client; otherwise no rule counts by client
	Test        bool // for a test recipient
}

// RulesFor returns the rules for a request, in the order of the response. Their limits don't
// include the places that the request may not use (see reserve). The rules are:
//
//   - the policy's rules
//   - BackoffRule, if the policy has a rule on failures that can refuse
//   - browserRules whose scope has no rule yet, except for a back end that knows the person
//   - UnnamedRule, for a stranger for whom the back end named no address
//   - the breaker, if there is one
//
// It leaves out rules that can't apply, such as one on the country of a mail. For a test recipient,
// only the rules on recipients are left, and they refuse nothing.
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
		r.Observe, r.Recorded = r.Observe || from.Test, IsRecorded(r.Scope)
		rules = append(rules, r)
	}
	if has(func(r quota.Rule) bool { return r.Scope == FailuresScope && !r.Observe }) {
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
		return from.Channel != recipient.SMS && (r.Scope == CountryScope || r.Scope == PrefixScope)
	})
}

// IsStrangerInScope reports whether callers of a class are strangers to rules of this scope, and so
// may not use their reserve. Unknown browsers always are strangers. Known browsers are strangers in
// every scope but recipient, because a browser is known for one recipient only, and because the
// owner of a mail domain can make one known for any number of addresses.
func IsStrangerInScope(class store.Class, scope quota.Scope) bool {
	return class.IsStranger() || class == store.KnownBrowser && scope != quota.Recipient
}

// reserve returns how many places of a rule are closed to a request. They are the rule's last
// places, so the request is refused while other requests are still admitted.
//
//   - In a rule on failures, half of the places (rounded up) are closed to strangers, unless the
//     rule has just one place.
//   - In any other rule, the configured reserve is closed to strangers, except that of the built-in
//     policy in an app that strangers can't reach.
func (s Set) reserve(p Purpose, from Request, r quota.Rule) int {
	switch {
	case r.Scope == FailuresScope:
		if from.Class.IsStranger() {
			return r.Limit - max(1, r.Limit/2)
		}
	case IsStrangerInScope(from.Class, r.Scope) && (!p.BuiltIn || s.Apps[from.App].ReachedByStrangers):
		return p.Reserve[r.Name]
	}
	return 0
}

// Pass says how a request passed a human check. This decides how many of the strangers' places the
// request may use in scopes that count the sends of many recipients.
type Pass int

// Sends with and without a pass have one count. A request is admitted while that count is below the
// limit for its pass.
const (
	NoPass   Pass = iota // half of the places, rounded up
	WorkPass             // three quarters, rounded up: for a proof of work while the configured vendor answers
	FullPass             // all places; also if the request isn't asked for a check
)

// Below returns the rules whose limit is lower for requests of this class with this pass. Each has
// the lower limit.
func (p Pass) Below(class store.Class, rules []quota.Rule) (lower []quota.Rule) {
	for _, r := range rules {
		if limit := p.Limit(class, r); limit < r.Limit {
			r.Limit = limit
			lower = append(lower, r)
		}
	}
	return lower
}

func (p Pass) Limit(class store.Class, r quota.Rule) int {
	switch {
	case p == FullPass || r.Observe || !IsWiderScope(r.Scope) || !IsStrangerInScope(class, r.Scope):
		return r.Limit
	case p == WorkPass:
		return r.Limit - r.Limit/4
	}
	return (r.Limit + 1) / 2
}

var RuleScopes = []quota.Scope{
	quota.Recipient, quota.IP, quota.Network, quota.App, quota.Purpose, CountryScope,
	PrefixScope, quota.Global, FailuresScope,
}

var recipientScopes = []quota.Scope{quota.Recipient, FailuresScope, BackoffScope}

// IsWiderScope reports whether a scope counts the sends of many recipients together. If a rule of
// such a scope refuses a browser, it does so for every recipient.
func IsWiderScope(scope quota.Scope) bool { return !slices.Contains(recipientScopes, scope) }

// CountsByClient reports whether a scope counts by the client's address. If a back end leaves that
// address out, the scope's rules don't apply, because the back end's own address would stand for
// all of its users. By default these rules have no reserve, because a stranger can use up only the
// places of one network.
func CountsByClient(scope quota.Scope) bool { return scope == quota.IP || scope == quota.Network }

const BackoffName = "backoff"

// BackoffRule limits sends to a recipient that failed for a reason other than the address: a stop
// of the channel or purpose (reason `paused`), a mail server that refuses the service, a wrong
// setting. Such sends are refunded, so no other rule on the recipient slows them down. Without
// BackoffRule, a client in a loop could flood the mail server.
//
// Each class of callers counts separately, so strangers don't use up the others' places. backoff.go
// in package gates says when a send stops counting.
var BackoffRule = quota.Rule{Name: BackoffName, Scope: BackoffScope, Recorded: true, Limit: 20, Window: time.Hour}

type FailedCheckRules struct {
	Network     quota.Rule // scope IP
	WideNetwork quota.Rule // scope Network
	App         quota.Rule // scope App; refuses no check, but makes new codes longer
}

func CountedInDatabase(r quota.Rule) bool {
	return r.Scope == quota.Recipient || r.Scope == FailuresScope
}
