package config

import (
	"errors"
	"time"

	"sendcode/internal/config/document"
	"sendcode/quota"
)

// Limits are lists of rules for /v1/limits, by name.
type Limits map[string][]LimitRule

// LimitRule is a rule of a limit.
type LimitRule struct {
	// Unique within the limit.
	Name string `yaml:"name" required:"yes"`
	// The key that the rule counts by, or several: the same values of all count together.
	Keys []string `yaml:"key" required:"yes" single:"yes" check:"name" unique:"yes" style:"flow"`
	// 1 to 100000.
	Limit int `yaml:"limit" required:"yes"`
	// Instead of `window`: a calendar `hour`, `day`, `week` (from Monday) or `month`.
	Per quota.Period `yaml:"per,omitempty" oneof:"hour day week month"`
	// Instead of `window`: this many calendar dates up to today, 1 to 31.
	Days int `yaml:"days,omitempty"`
	// The time zone of `per` and `days`; by default UTC.
	Zone *time.Location `yaml:"time_zone,omitempty"`
	// Sliding: `1s` to `744h`.
	Window time.Duration `yaml:"window,omitempty"`
	// `enforce` (the default), or `observe`: the rule counts and never refuses.
	Mode string `yaml:"mode,omitempty" oneof:"enforce observe"`
}

// maxKeys of a rule: a request has no more (limits.MaxKeys).
const maxKeys = 8

// Rule returns the rule without its keys.
func (r LimitRule) Rule() quota.Rule {
	return rule{Name: r.Name, Limit: r.Limit, Window: r.Window, Per: r.Per, Days: r.Days, Zone: r.Zone, Mode: r.Mode}.quota()
}

// Check implements document.Checker: quota judges its own rules.
func (r *LimitRule) Check(p *document.Place) {
	judged := r.Rule()
	judged.Scope = quota.Global // a limit's rules have keys instead
	for _, err := range flatten(quota.Validate([]quota.Rule{judged})) {
		bad, ok := errors.AsType[*quota.RuleError](err)
		switch {
		case !ok || unclear(p, r.Days, bad.Field):
		case p.Given[bad.Field] != nil:
			p.Complain(bad.Field, "%s", document.Plain(bad.Problem))
		case bad.Field == "window":
			p.Complain("", "window, per or days is missing")
		}
	}
	checkDays(p, r.Days)
	if p.Given["key"] != nil && (len(r.Keys) == 0 || len(r.Keys) > maxKeys) {
		p.Complain("key", "must name 1 to %d keys", maxKeys)
	}
}

// unclear reports whether the complaint about a field may follow from a mistake in per or days.
func unclear(p *document.Place, days int, field string) bool {
	return (p.Faulty["per"] || p.Faulty["days"] || days == 0 && p.Given["days"] != nil) && (field == "window" || field == "time_zone")
}

// checkDays reports `days: 0`, which quota takes for a rule without days.
func checkDays(p *document.Place, days int) {
	if days == 0 && p.Given["days"] != nil && !p.Faulty["days"] {
		p.Complain("days", "0 is not within 1 and %d", quota.MaxDays)
	}
}

// completeLimits reports a limit without rules: it would admit everything.
func (d *reader) completeLimits(limits *document.Place) {
	for name, rules := range d.config.Limits {
		if len(rules) == 0 {
			limits.Complain("limits", "%s has no rule", name)
		}
	}
}
