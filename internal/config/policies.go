package config

import (
	"errors"
	"slices"
	"time"
	_ "time/tzdata" // zones have their names where the system has no database of them, such as in a bare container

	"go.yaml.in/yaml/v3"

	"sendcode/quota"
)

// defaultName is the policy and the purpose that always exist.
const defaultName = "default"

// failuresName is what the rule is called that every policy has.
const failuresName = "failures"

// defaultRules are the first promise: 1 per 60 s, 5 per hour, 10 per 24 h for each recipient (QUOTA-1).
func defaultRules() []quota.Rule {
	return []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}
}

// failuresRule keeps refunds from being used to hammer a bad address; a policy has it unless it brings its own (QUOTA-15).
func failuresRule() quota.Rule {
	return quota.Rule{Name: failuresName, Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour}
}

// policies reads lists of rules by name.
func (s *sections) policies(n *yaml.Node, path string) {
	s.config.Policies = map[string]quota.Policy{}
	s.entries(n, path, func(name string, v *yaml.Node, path string) {
		before := len(s.errs.Mistakes)
		p := quota.Policy{Name: name}
		var places []rulePlace
		s.items(v, path, func(v *yaml.Node, path string) {
			rule, place := s.rule(v, path)
			p.Rules, places = append(p.Rules, rule), append(places, place)
		})
		if v.Kind == yaml.SequenceNode {
			s.validate(p, v, path, places)
			s.checkFailures(p, places)
		}
		if len(s.errs.Mistakes) > before {
			s.badPolicies = append(s.badPolicies, name)
			return
		}
		s.config.Policies[name] = p
	})
}

// rulePlace remembers where a rule and its fields stand.
type rulePlace struct {
	node   *yaml.Node
	path   string
	fields map[string]*yaml.Node
	faulty map[string]bool // fields that were complained about already
}

// rule reads one rule.
func (s *sections) rule(n *yaml.Node, path string) (quota.Rule, rulePlace) {
	var r quota.Rule
	var only bool // of browsers
	at := rulePlace{n, path, map[string]*yaml.Node{}, map[string]bool{}}
	if n.Kind != yaml.MappingNode {
		at.faulty = map[string]bool{"name": true, "scope": true, "limit": true, "window": true, "per": true, "time_zone": true}
	}
	read := func(field string, into func(v *yaml.Node, path string) bool) func(*yaml.Node, string) {
		return func(v *yaml.Node, path string) {
			at.fields[field] = v
			at.faulty[field] = !into(v, path)
		}
	}
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"name":  read("name", func(v *yaml.Node, path string) (ok bool) { r.Name, ok = s.text(v, path); return }),
		"scope": read("scope", func(v *yaml.Node, path string) (ok bool) { r.Scope, ok = s.scope(v, path); return }),
		"limit": read("limit", func(v *yaml.Node, path string) (ok bool) { r.Limit, ok = s.integer(v, path); return }),
		"window": read("window", func(v *yaml.Node, path string) (ok bool) {
			r.Window, ok = s.duration(v, path)
			return
		}),
		"per":       read("per", func(v *yaml.Node, path string) (ok bool) { r.Per, ok = s.period(v, path); return }),
		"time_zone": read("time_zone", func(v *yaml.Node, path string) (ok bool) { r.Zone, ok = s.zone(v, path); return }),
		"callers":   read("callers", func(v *yaml.Node, path string) (ok bool) { only, ok = s.callers(v, path); return }),
		"mode":      read("mode", func(v *yaml.Node, path string) (ok bool) { r.Observe, ok = s.mode(v, path); return }),
	})
	if only && r.Scope != "" {
		r.Scope = r.Scope.OfBrowsers()
	}
	if at.faulty["per"] { // then it is not known what goes together with it
		at.faulty["window"], at.faulty["time_zone"] = true, true
	}
	if r.Calendar() && r.Zone == nil {
		r.Zone = time.UTC
	}
	return r, at
}

func (s *sections) period(n *yaml.Node, path string) (quota.Period, bool) {
	text, ok := s.text(n, path)
	if ok && !slices.Contains([]quota.Period{quota.Hour, quota.Day, quota.Week, quota.Month}, quota.Period(text)) {
		s.mistake(n, path, "must be hour, day, week or month")
		return "", false
	}
	return quota.Period(text), ok
}

// zone takes names of the IANA database. Local is refused: it would be another zone on every machine.
func (s *sections) zone(n *yaml.Node, path string) (*time.Location, bool) {
	text, ok := s.text(n, path)
	if !ok {
		return nil, false
	}
	z, err := time.LoadLocation(text)
	if err != nil || text == "" || text == "Local" {
		s.mistake(n, path, "there is no time zone %s; they have names such as Asia/Shanghai", plain(text))
		return nil, false
	}
	return z, true
}

// browsers is what callers may be: the rule counts and refuses the sends of browsers alone.
const browsers = "browsers"

func (s *sections) callers(n *yaml.Node, path string) (only, ok bool) {
	text, ok := s.text(n, path)
	if ok && text != browsers {
		s.mistake(n, path, "must be browsers; without it a rule is for all callers")
		return false, false
	}
	return ok, ok
}

// The modes of a rule: one refuses, the other only says when it would have.
const (
	enforce = "enforce"
	observe = "observe"
)

// mode reports whether the rule only observes.
func (s *sections) mode(n *yaml.Node, path string) (observes, ok bool) {
	text, ok := s.text(n, path)
	if ok && text != enforce && text != observe {
		s.mistake(n, path, "must be enforce or observe")
		return false, false
	}
	return text == observe, ok
}

var scopes = []quota.Scope{quota.Recipient, quota.IP, quota.Network, quota.App, quota.Purpose, quota.Country, quota.Prefix, quota.Global, quota.Failures}

func (s *sections) scope(n *yaml.Node, path string) (quota.Scope, bool) {
	text, ok := s.text(n, path)
	switch {
	case !ok:
		return "", false
	case !slices.Contains(scopes, quota.Scope(text)):
		s.mistake(n, path, "must be recipient, ip, network, app, purpose, country, prefix, global or failures")
		return "", false
	}
	return quota.Scope(text), true
}

// validate lets quota judge its own rules, and finds the line for each complaint.
func (s *sections) validate(p quota.Policy, n *yaml.Node, path string, places []rulePlace) {
	judged := quota.Policy{Name: p.Name, Rules: slices.Clone(p.Rules)}
	for i := range judged.Rules {
		judged.Rules[i].Scope = judged.Rules[i].Scope.Base()
	}
	for _, err := range flatten(judged.Validate()) {
		var bad *quota.RuleError
		if !errors.As(err, &bad) {
			s.mistake(n, path, "%s", plain(err.Error()))
			continue
		}
		at := places[bad.Index]
		field, given := at.fields[bad.Field]
		switch {
		case at.faulty[bad.Field]:
		case !given:
			s.mistake(at.node, at.path, "%s is missing", bad.Field)
		default:
			s.mistake(field, join(at.path, bad.Field), "%s", plain(bad.Problem))
		}
	}
}

// checkFailures wants of the rule on failures what the log can decide: one window.
func (s *sections) checkFailures(p quota.Policy, places []rulePlace) {
	seen := false
	for i, r := range p.Rules {
		at := places[i]
		complain := func(field, problem string) {
			if n, given := at.fields[field]; given && !at.faulty[field] {
				s.mistake(n, join(at.path, field), "%s", problem)
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
		}
		seen = true
	}
}

// flatten takes apart what errors.Join put together.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

func (s *sections) completePolicies() {
	if s.config.Policies == nil {
		s.config.Policies = map[string]quota.Policy{}
	}
	if _, given := s.config.Policies[defaultName]; !given {
		s.config.Policies[defaultName] = quota.Policy{Name: defaultName, Rules: defaultRules()}
	}
	for name, p := range s.config.Policies {
		if limitsRecipients(p) && len(quota.OfScope(p.Rules, quota.Failures)) == 0 {
			p.Rules = append(p.Rules, failuresRule())
			s.config.Policies[name] = p
		}
	}
}

// limitsRecipients reports whether a policy holds the rule that the first promise rests on. One that observes limits nobody.
func limitsRecipients(p quota.Policy) bool {
	return slices.ContainsFunc(p.Rules, func(r quota.Rule) bool { return r.Scope == quota.Recipient && !r.Observe })
}
