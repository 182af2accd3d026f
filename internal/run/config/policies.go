package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/run/config/document"
	"sendcode/quota"
)

// defaultName is the policy and the purpose that always exist.
const defaultName = "default"

// failuresRuleName is the name of the built-in rule with scope failures.
const failuresRuleName = "failures"

// policyRule is a rule of a policy.
type policyRule struct {
	// Unique within the policy.
	Name string `yaml:"name" required:"yes"`
	// Whose sends are counted: of a `recipient`, `ip`, `network`, `app`, `purpose`, `country` or
	// `prefix`, or `global`; or `failures`.
	Scope     quota.Scope `yaml:"scope" required:"yes" oneof:"recipient ip network app purpose country prefix global failures"`
	Allowance `yaml:",inline"`
	// [Strangers](policies.md#reserve) are refused once only this many are left of `limit`. Below
	// `limit`; by default 0; with scope `app`, `purpose`, `country`, `prefix` or `global` a fifth
	// of a `limit` above 2. Not with scope `failures`.
	Reserve int `yaml:"reserve,omitempty"`
}

// Allowance is how many events a rule admits in which period.
type Allowance struct {
	// 1 to 100000.
	Limit int `yaml:"limit" required:"yes"`
	// Instead of `window`: a calendar `hour`, `day`, `week` (from Monday) or `month`.
	Per quota.Period `yaml:"per,omitempty" oneof:"hour day week month"`
	// Instead of `window`: this many calendar dates up to today, 1 to 31.
	Days int `yaml:"days,omitempty"`
	// The time zone of `per` and `days`, such as `Asia/Shanghai`; by default UTC.
	Zone string `yaml:"time_zone,omitempty" check:"time_zone"`
	// A sliding window, `1s` to `744h`.
	Window time.Duration `yaml:"window,omitempty"`
	// `enforce` (the default), or `observe`: the rule counts and never refuses.
	Mode string `yaml:"mode,omitempty" oneof:"enforce observe"`
}

// modeObserve is the mode of a rule that counts and never refuses.
const modeObserve = "observe"

// quotaRule returns a rule of this name and scope for the limiter.
func (a Allowance) quotaRule(name string, scope quota.Scope) quota.Rule {
	q := quota.Rule{Name: name, Scope: scope, Limit: a.Limit, Window: a.Window, Per: a.Per, Days: a.Days}
	q.Observe = a.Mode == modeObserve
	if q.Calendar() || a.Zone != "" {
		q.Zone, _ = time.LoadLocation(a.Zone) // the zone was checked when it was read; "" is UTC
	}
	return q
}

// checkByQuota lets package quota check the rule, and adds the errors as mistakes. noWindow is the
// mistake for a rule without window, per and days.
func (a Allowance) checkByQuota(p *document.Mapping, name, noWindow string) {
	noDays := a.Days == 0 && p.Given["days"] != nil // quota would take 0 for a rule without days
	var problems []error
	if joined, wrong := quota.Validate([]quota.Rule{a.quotaRule(name, quota.Global)}).(interface{ Unwrap() []error }); wrong {
		problems = joined.Unwrap()
	}
	for _, err := range problems {
		bad := err.(*quota.RuleError)
		aboutTime := bad.Field == "window" || bad.Field == "time_zone"
		switch {
		case aboutTime && (p.Faulty["per"] || p.Faulty["days"] || noDays): // a mistake in per or days was already reported
		case p.Given[bad.Field] != nil:
			p.AddMistake(bad.Field, "%s", document.Printable(bad.Problem))
		case bad.Field == "window":
			p.AddMistake("", "%s", noWindow)
		}
	}
	if noDays && !p.Faulty["days"] {
		p.AddMistake("days", "must be from 1 to %d", quota.MaxDays)
	}
}

// Check implements document.checker. It also sets the default reserve. A policy may have one rule
// with scope failures, which needs a sliding window and has no reserve. No other rule may have the
// name of the built-in rule on failures.
func (r *policyRule) Check(p *document.Mapping) {
	r.checkByQuota(p, r.Name, "window is missing")
	policy, _, _ := strings.Cut(p.Path, "[")
	hasFailuresRule := settingsSourceOf(p).hasFailuresRule
	checkReserve(p, r.Reserve, r.Limit)
	if r.countsManyRecipients() {
		r.Reserve = cmp.Or(r.Reserve, defaultReserve(r.Limit))
	}
	switch {
	case r.Scope != quota.Failures && r.Scope != "" && r.Name == failuresRuleName:
		p.AddMistake("name", "is reserved for the rule with scope failures")
	case r.Scope != quota.Failures:
	case hasFailuresRule[policy]:
		p.AddMistake("scope", "there is another rule with scope failures")
	default:
		hasFailuresRule[policy] = true
		for _, key := range []string{"per", "days"} {
			if p.Given[key] != nil {
				p.AddMistake(key, "cannot be used with scope failures; give window")
			}
		}
		if p.Given["reserve"] != nil {
			p.AddMistake("reserve", "cannot be used with scope failures")
		}
	}
}

// checkReserve adds a mistake unless a reserve that is given is above 0 and below the limit.
func checkReserve[N int | int64](p *document.Mapping, reserve, limit N) {
	if p.Given["reserve"] != nil && !p.Faulty["limit"] &&
		(reserve <= 0 || p.Given["limit"] != nil && reserve >= limit) {
		p.AddMistake("reserve", "must be above 0 and below the limit")
	}
}

// defaultReserve returns the reserve of a limit that counts many recipients together, if no reserve
// is given: a fifth, and at least 1. A limit of 1 or 2 has no reserve, since strangers would
// otherwise have half of it or nothing.
func defaultReserve[N int | int64](limit N) N {
	if limit <= 2 {
		return 0
	}
	return max(1, limit/5)
}

// countsManyRecipients reports whether the rule counts many recipients and clients together. By
// default such a rule has a reserve: otherwise one stranger could use it up and stop all other
// callers. Rules on recipients and networks have none, since a stranger uses up the places of only
// one recipient or network.
func (r policyRule) countsManyRecipients() bool {
	return policy.IsWiderScope(r.Scope) && !policy.CountsByClient(r.Scope)
}

// checkPolicyName returns what package quota finds wrong with the name of a policy, or "".
func checkPolicyName(name string) string {
	if err := (quota.Policy{
		Name:  name,
		Rules: []quota.Rule{failuresRule.quotaRule(failuresRuleName, quota.Failures)},
	}).Validate(); err != nil {
		return document.Printable(err.Error())
	}
	return ""
}

// failuresRule bounds rejected sends. Rejected sends are refunded, so no other rule stops repeated
// mails to a bad address. The rule is added to each policy that limits recipients and has no rule
// with scope failures.
var failuresRule = policyRule{
	Name: failuresRuleName, Scope: quota.Failures,
	Allowance: Allowance{Limit: 20, Window: 24 * time.Hour},
}

// limitsRecipients reports whether an enforced rule has scope recipient.
func limitsRecipients(rules []policyRule) bool {
	return slices.ContainsFunc(rules, func(r policyRule) bool {
		return r.Scope == quota.Recipient && r.Mode != modeObserve
	})
}

// maxLimitKeys is how many keys a rule may name; a request has at most as many (applimits.MaxKeys).
const maxLimitKeys = 8

// limitRule is one rule of an app's own limit, which /v1/limits decides.
type limitRule struct {
	// Unique within the limit.
	Name string `yaml:"name" required:"yes"`
	// The key that the rule counts by, or several: the same values of all count together.
	Keys      []string `yaml:"key" required:"yes" check:"name" unique:"yes"`
	Allowance `yaml:",inline"`
}

// QuotaRule returns the rule for the limiter, without scope and keys.
func (r limitRule) QuotaRule() quota.Rule { return r.quotaRule(r.Name, "") }

// Check implements document.checker: package quota must accept the rule, and it must name 1 to
// maxLimitKeys keys.
func (r *limitRule) Check(p *document.Mapping) {
	r.checkByQuota(p, r.Name, "window, per or days is missing")
	if p.Given["key"] != nil && (len(r.Keys) == 0 || len(r.Keys) > maxLimitKeys) {
		p.AddMistake("key", "must name 1 to %d keys", maxLimitKeys)
	}
}
