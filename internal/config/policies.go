package config

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/config/document"
	"sendcode/quota"
)

// defaultName is the policy and the purpose that always exist.
const defaultName = "default"

// failuresName is the name of the rule that every policy has.
const failuresName = "failures"

// Policies are lists of rules by name.
type Policies map[string]quota.Policy

// rule is quota.Rule as the file has it.
type rule struct {
	// Unique within the policy.
	Name string `yaml:"name" required:"quota"`
	// Whose sends are counted: of a `recipient`, `ip`, `network`, `app`, `purpose`, `country` or `prefix`, or `global`; or `failures`.
	Scope quota.Scope `yaml:"scope" required:"quota" oneof:"recipient ip network app purpose country prefix global failures"`
	// 1 to 100000.
	Limit int `yaml:"limit" required:"quota"`
	// Instead of `window`: a calendar `hour`, `day`, `week` (from Monday) or `month`.
	Per quota.Period `yaml:"per,omitempty" oneof:"hour day week month"`
	// Instead of `window`: this many calendar dates up to today, 1 to 31.
	Days int `yaml:"days,omitempty"`
	// The time zone of `per` and `days`, such as `Asia/Shanghai`; by default UTC.
	Zone *time.Location `yaml:"time_zone,omitempty"`
	// Sliding: `60s`, `1h`, up to `744h`.
	Window time.Duration `yaml:"window,omitempty"`
	// `browsers`: the rule counts and refuses sends of public keys and our page alone. Not with scope `failures`.
	Callers string `yaml:"callers,omitempty" oneof:"browsers" wrong:"must be browsers; without it a rule is for all callers"`
	// `enforce` (the default), or `observe`: the rule counts and never refuses.
	Mode string `yaml:"mode,omitempty" oneof:"enforce observe"`
}

const (
	browsers = "browsers"
	observe  = "observe"
)

func (r rule) quota() quota.Rule {
	q := quota.Rule{Name: r.Name, Scope: r.Scope, Limit: r.Limit, Window: r.Window, Per: r.Per, Days: r.Days, Zone: r.Zone, Observe: r.Mode == observe}
	if r.Callers == browsers && r.Scope != "" {
		q.Scope = r.Scope.OfBrowsers()
	}
	if q.Calendar() && q.Zone == nil {
		q.Zone = time.UTC
	}
	return q
}

func ruleOf(q quota.Rule) rule {
	r := rule{Name: q.Name, Scope: q.Scope.Base(), Limit: q.Limit, Window: q.Window, Per: q.Per, Days: q.Days, Zone: q.Zone}
	if q.Scope.Browsers() {
		r.Callers = browsers
	}
	if q.Observe {
		r.Mode = observe
	}
	return r
}

// Encode implements document.Shaped.
func (all *Policies) Encode(e document.Encoder) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(*all)) {
		var rules []rule
		for _, r := range (*all)[name].Rules {
			rules = append(rules, ruleOf(r))
		}
		document.Put(n, name, e.Value(reflect.ValueOf(&rules).Elem(), `style:"items"`))
	}
	return n
}

// Decode implements document.Shaped.
func (all *Policies) Decode(d *document.Decoder, n *yaml.Node, path string) {
	*all = Policies{}
	d.Entries(n, path, func(name string, n *yaml.Node, path string) {
		before := len(d.Errs.Mistakes)
		var rules []rule
		places := d.Value(n, path, reflect.ValueOf(&rules).Elem(), "")
		p := quota.Policy{Name: name}
		for _, r := range rules {
			p.Rules = append(p.Rules, r.quota())
		}
		if n.Kind == yaml.SequenceNode {
			validate(d, p, n, path, places)
			checkFailures(p, places)
		}
		if len(d.Errs.Mistakes) > before {
			r := d.Owner.(*reader)
			r.badPolicies = append(r.badPolicies, name)
			return
		}
		(*all)[name] = p
	})
}

// validate reports what package quota finds wrong with the rules, each at its line.
func validate(d *document.Decoder, p quota.Policy, n *yaml.Node, path string, places []*document.Place) {
	judged := quota.Policy{Name: p.Name, Rules: slices.Clone(p.Rules)}
	for i := range judged.Rules {
		judged.Rules[i].Scope = judged.Rules[i].Scope.Base()
	}
	for _, err := range flatten(judged.Validate()) {
		bad, ok := errors.AsType[*quota.RuleError](err)
		if !ok {
			d.Mistake(n, path, "%s", document.Plain(err.Error()))
			continue
		}
		at := places[bad.Index]
		switch {
		case unclear(at, p.Rules[bad.Index].Days, bad.Field):
		case at.Given[bad.Field] == nil:
			at.Complain("", "%s is missing", bad.Field)
		default:
			at.Complain(bad.Field, "%s", document.Plain(bad.Problem))
		}
	}
	for i, r := range p.Rules {
		checkDays(places[i], r.Days)
	}
}

// checkFailures reports rules with scope failures that the log cannot evaluate: it supports one rule, with a sliding window, for
// all callers; the name of that rule is reserved.
func checkFailures(p quota.Policy, places []*document.Place) {
	seen := false
	for i, r := range p.Rules {
		complain := func(key, problem string) {
			if places[i].Given[key] != nil {
				places[i].Complain(key, "%s", problem)
			}
		}
		switch {
		case r.Scope == quota.Failures.OfBrowsers():
			complain("callers", "a rule with scope failures is for all callers")
			continue
		case r.Scope != quota.Failures:
			if r.Name == failuresName && r.Scope != "" {
				complain("name", "is the name of the rule with scope failures")
			}
			continue
		case seen:
			complain("scope", "there is another rule with scope failures")
		case r.Calendar():
			complain("per", "a rule with scope failures has a window")
			complain("days", "a rule with scope failures has a window")
		}
		seen = true
	}
}

// flatten returns the errors that errors.Join joined, at any depth.
func flatten(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// defaultRules are the first promise: 1 per 60 s, 5 per hour, 10 per 24 h for each recipient.
func defaultRules() []quota.Rule {
	return []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}
}

// failuresRule bounds rejected sends, which are refunded, so that a bad address can't be mailed without end. A policy has it unless
// it has a rule of its own.
func failuresRule() quota.Rule {
	return quota.Rule{Name: failuresName, Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour}
}

func (d *reader) completePolicies() {
	c := d.config
	if c.Policies == nil {
		c.Policies = Policies{}
	}
	if _, given := c.Policies[defaultName]; !given {
		c.Policies[defaultName] = quota.Policy{Name: defaultName, Rules: defaultRules()}
	}
	for name, p := range c.Policies {
		if limitsRecipients(p) && len(quota.OfScope(p.Rules, quota.Failures)) == 0 {
			p.Rules = append(p.Rules, failuresRule())
			c.Policies[name] = p
		}
	}
}

// limitsRecipients reports whether the policy has an enforced rule with scope recipient.
func limitsRecipients(p quota.Policy) bool {
	return slices.ContainsFunc(p.Rules, func(r quota.Rule) bool { return r.Scope == quota.Recipient && !r.Observe })
}
