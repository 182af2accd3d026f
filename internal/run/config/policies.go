package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/codes/policy"
	"sendcode/quota"
)

// defaultName is the name of the policy and of the purpose that always exist.
const defaultName = "default"

// failuresRuleName is the name of the built-in rule with scope failures.
const failuresRuleName = "failures"

type policyRule struct {
	// Unique within the policy.
	Name string `yaml:"name" required:"yes"`
	// Whose sends the rule counts together: the sends of one `recipient`, `ip`, `network`, `app`,
	// `purpose`, `country` or `prefix`, or all sends (`global`). `failures` counts the sends to one
	// recipient that failed because the address takes no messages.
	Scope     quota.Scope `yaml:"scope" required:"yes" oneof:"recipient ip network app purpose country prefix global failures"`
	Allowance `yaml:",inline"`
	// The number of sends that are kept free of [strangers](policies.md#reserve). Strangers are
	// refused when only this many sends are left of `limit`. It must be below `limit`, and cannot
	// be used with scope `failures`. By default it is 0. With scope `app`, `purpose`, `country`,
	// `prefix` or `global` the default is a fifth of `limit`, if `limit` is above 2.
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

func (a Allowance) quotaRule(name string, scope quota.Scope) quota.Rule {
	q := quota.Rule{Name: name, Scope: scope, Limit: a.Limit, Window: a.Window, Per: a.Per, Days: a.Days}
	q.Observe = a.Mode == modeObserve
	if q.Calendar() || a.Zone != "" {
		q.Zone, _ = time.LoadLocation(a.Zone) // the zone was checked when it was read; "" is UTC
	}
	return q
}

// checkByQuota lets package quota check the rule, and adds the errors as mistakes of the settings.
// If the rule has none of the keys `window`, `per` and `days`, the mistake is noWindow.
func (a Allowance) checkByQuota(p *document.Mapping, name, noWindow string) {
	noDays := a.Days == 0 && p.Given["days"] != nil // quota would treat 0 as a rule without days
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
// name of the built-in rule on failures. No rule may have the name of another limit of the service.
func (r *policyRule) Check(p *document.Mapping) {
	r.checkByQuota(p, r.Name, "window is missing")
	of, _, _ := strings.Cut(p.Path, "[") // the policy's path
	hasFailuresRule := settingsSourceOf(p).hasFailuresRule
	checkReserve(p, r.Reserve, r.Limit)
	if r.countsManyRecipients() {
		r.Reserve = cmp.Or(r.Reserve, defaultReserve(r.Limit))
	}
	switch {
	case r.Scope != policy.FailuresScope && r.Scope != "" && r.Name == failuresRuleName:
		p.AddMistake("name", "is reserved for the rule with scope failures")
	case slices.Contains([]string{policy.BreakerName, policy.CarrierName, policy.LockoutName, policy.UnnamedRule.Name}, r.Name):
		p.AddMistake("name", "is reserved for a limit of the service")
	case r.Scope != policy.FailuresScope:
	case hasFailuresRule[of]:
		p.AddMistake("scope", "there is another rule with scope failures")
	default:
		hasFailuresRule[of] = true
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

// checkReserve adds a mistake if a reserve is given that is 0 or less, or that is not below the
// limit.
func checkReserve[N int | int64](p *document.Mapping, reserve, limit N) {
	if p.Given["reserve"] != nil && !p.Faulty["limit"] &&
		(reserve <= 0 || p.Given["limit"] != nil && reserve >= limit) {
		p.AddMistake("reserve", "must be above 0 and below the limit")
	}
}

// defaultReserve returns the default reserve of a limit that counts many recipients together. It is
// a fifth of the limit, and at least 1. A limit of 1 or 2 has no reserve. With a reserve of 1,
// strangers could use nothing of a limit of 1, and only half of a limit of 2.
func defaultReserve[N int | int64](limit N) N {
	if limit <= 2 {
		return 0
	}
	return max(1, limit/5)
}

// countsManyRecipients reports whether the rule counts many recipients and clients together. Such a
// rule has a reserve by default. Without a reserve, one stranger could use up the whole limit and
// so stop all other callers. Rules on recipients and networks have no default reserve, since a
// stranger can use up the limit of only one recipient or network.
func (r policyRule) countsManyRecipients() bool {
	return policy.IsWiderScope(r.Scope) && !policy.CountsByClient(r.Scope)
}

// checkPolicyName returns the problem with the name of a policy, or "". Failed checks count in
// buckets with the name checks, so no policy may have this name.
func checkPolicyName(name string) string {
	if name == "checks" {
		return "is reserved for the limits on failed checks"
	}
	if err := (quota.Policy{
		Name:  name,
		Rules: []quota.Rule{failuresRule.quotaRule(failuresRuleName, policy.FailuresScope)},
	}).Validate(); err != nil {
		return document.Printable(err.Error())
	}
	return ""
}

// failuresRule limits rejected sends, so that a bad address that is not suppressed doesn't get
// mails again and again. The other rules do not count rejected sends, which are refunded. Load adds
// failuresRule to each policy that limits recipients and has no rule with scope failures.
var failuresRule = policyRule{
	Name: failuresRuleName, Scope: policy.FailuresScope,
	Allowance: Allowance{Limit: 20, Window: 24 * time.Hour},
}

func limitsRecipients(rules []policyRule) bool {
	return slices.ContainsFunc(rules, func(r policyRule) bool {
		return r.Scope == quota.Recipient && r.Mode != modeObserve
	})
}

// maxLimitKeys is the highest number of keys in a rule. A request has at most as many keys
// (applimits.MaxKeys).
const maxLimitKeys = 8

// limitRule is one rule of an app's own limit, which /v1/limits decides.
type limitRule struct {
	// Unique within the limit.
	Name string `yaml:"name" required:"yes"`
	// One key or several keys. The rule counts requests together if they have the same values of
	// all these keys.
	Keys      []string `yaml:"key" required:"yes" check:"name" unique:"yes"`
	Allowance `yaml:",inline"`
}

// QuotaRule returns the rule for the limiter, without scope and keys.
func (r limitRule) QuotaRule() quota.Rule { return r.quotaRule(r.Name, "") }

// Check implements document.checker. Package quota must accept the rule, and the rule must have 1
// to maxLimitKeys keys.
func (r *limitRule) Check(p *document.Mapping) {
	r.checkByQuota(p, r.Name, "window, per or days is missing")
	if p.Given["key"] != nil && (len(r.Keys) == 0 || len(r.Keys) > maxLimitKeys) {
		p.AddMistake("key", "must name 1 to %d keys", maxLimitKeys)
	}
}
