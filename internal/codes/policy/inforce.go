package policy

import (
	"maps"
	"reflect"
	"slices"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// RuleInForce is a rule with its limit for each class of callers.
type RuleInForce struct {
	quota.Rule                     // Limit is the largest of Limits
	Limits     map[store.Class]int // no entry: the rule does not apply to the class
	Policies   []string            // the policies whose sends a built-in rule also counts; nil: all
}

// RulesInForce returns the rules of a purpose's policy. If strangers can reach some app, the limits
// are those for such an app.
func (s Set) RulesInForce(p Purpose) []RuleInForce {
	own, _ := s.rulesInForce(p)
	return own
}

// AppsWithoutReserve returns the apps in which RulesFor ignores the reserve of a purpose's policy,
// sorted. If that is every app, RulesInForce ignores the reserve as well, and the result is empty.
func (s Set) AppsWithoutReserve(p Purpose) (apps []string) {
	for name, app := range s.Apps {
		if p.BuiltIn && len(p.Reserve) > 0 && !app.ReachedByStrangers {
			apps = append(apps, name)
		}
	}
	if len(apps) == len(s.Apps) {
		return nil
	}
	return slices.Sorted(slices.Values(apps))
}

// BuiltInRules returns the rules that apply without being in a policy: those on sends, and those on
// failed checks that refuse a check or a send. The limit of a carrier's hold is known only to the
// carrier, so the hold is left out.
func (s Set) BuiltInRules() (sends, failedChecks []RuleInForce) {
	policies := map[string]Purpose{}
	for _, p := range s.Purposes {
		policies[p.Policy.Name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		_, builtIn := s.rulesInForce(policies[name])
		for _, r := range builtIn {
			i := slices.IndexFunc(sends, func(has RuleInForce) bool {
				return has.Rule == r.Rule && reflect.DeepEqual(has.Limits, r.Limits)
			})
			if i < 0 {
				i, sends = len(sends), append(sends, r)
			}
			sends[i].Policies = append(sends[i].Policies, name)
		}
	}
	for i := range sends {
		if len(sends[i].Policies) == len(policies) {
			sends[i].Policies = nil
		}
	}
	for _, r := range []quota.Rule{LockoutRule, LongLockoutRule, s.Checks.Network, s.Checks.WideNetwork} {
		limits := map[store.Class]int{}
		for _, class := range store.Classes {
			limits[class] = r.Limit
		}
		failedChecks = append(failedChecks, RuleInForce{Rule: r, Limits: limits})
	}
	return sends, failedChecks
}

// rulesInForce collects what RulesFor returns for requests of each class, with and without the
// client's address.
func (s Set) rulesInForce(p Purpose) (own, builtIn []RuleInForce) {
	from := Request{Channel: recipient.SMS}
	for name, app := range s.Apps {
		if app.ReachedByStrangers {
			from.App = name
		}
	}
	var all []RuleInForce
	for _, from.Class = range slices.Backward(store.Classes) {
		for _, from.NamesClient = range []bool{true, false} {
			for _, r := range s.RulesFor(p, from) {
				i := slices.IndexFunc(all, func(has RuleInForce) bool { return has.Name == r.Name })
				if i < 0 {
					i, all = len(all), append(all, RuleInForce{Rule: r, Limits: map[store.Class]int{}})
				}
				all[i].Limits[from.Class] = r.Limit
				all[i].Limit = max(all[i].Limit, r.Limit)
			}
		}
	}
	for _, r := range all {
		if slices.ContainsFunc(p.Policy.Rules, func(named quota.Rule) bool { return named.Name == r.Name }) {
			own = append(own, r)
		} else {
			builtIn = append(builtIn, r)
		}
	}
	return own, builtIn
}
