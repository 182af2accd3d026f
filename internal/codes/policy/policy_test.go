package policy_test

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

func TestRulesForBrowsers(t *testing.T) {
	own := quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute}
	net := quota.Rule{Name: "client", Scope: quota.Network, Limit: 5, Window: time.Minute}
	office := quota.Rule{Name: "office", Scope: quota.IP, Limit: 5, Window: time.Minute, Observe: true}
	forBrowser := func(rules []quota.Rule) []quota.Rule {
		return policy.Set{}.ForBrowser(policy.Purpose{Policy: quota.Policy{Rules: rules}}, "shop", store.KnownBrowser).Policy.Rules
	}
	for _, c := range []struct {
		rules []quota.Rule
		want  []string
	}{
		{[]quota.Rule{own}, []string{"minute", "client", "network"}},
		{[]quota.Rule{own, office}, []string{"minute", "office", "network"}},
		{[]quota.Rule{own, net}, []string{"minute", "client", "client_"}},
		{[]quota.Rule{own, net, office}, []string{"minute", "client", "office"}},
	} {
		var got []string
		for _, r := range forBrowser(c.rules) {
			got = append(got, r.Name)
		}
		servertest.Same(t, "rules", fmt.Sprint(got), fmt.Sprint(c.want))
	}
	storetest.OK(t, quota.Validate(forBrowser([]quota.Rule{own})))
}

// Each class of callers has its own limit in each rule's one bucket. A known browser is known to
// rules on recipients alone.
func TestStrangersLeaveEachReserve(t *testing.T) {
	set := policy.Set{
		Breaker: quota.Rule{Name: "breaker", Scope: policy.BreakerScope, Limit: 10}, BreakerReserve: 3,
		Apps: map[string]policy.App{"open": {ReachedByStrangers: true}},
	}
	p := policy.Purpose{Reserve: map[string]int{}}
	for _, scope := range []quota.Scope{
		quota.Recipient, quota.IP, quota.Network, quota.App, quota.Purpose,
		quota.Country, quota.Prefix, quota.Global,
	} {
		p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: string(scope), Scope: scope, Limit: 5})
		p.Reserve[string(scope)] = 2
	}
	p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: "free", Scope: quota.App, Limit: 5})
	builtIn := p
	builtIn.BuiltIn = true
	for _, c := range []struct {
		what  string
		rules []quota.Rule
		want  string // of each rule in order, and the breaker
	}{
		{"a secret key", set.ForBackEnd(p, "shop", store.SecretKeyClass).Policy.Rules, "[5 5 5 5 5 5 5 5 5 10]"},
		{"a known browser", set.ForBrowser(p, "shop", store.KnownBrowser).Policy.Rules, "[5 3 3 3 3 3 3 3 5 7]"},
		{"an unknown browser", set.ForBrowser(p, "shop", store.UnknownBrowser).Policy.Rules, "[3 3 3 3 3 3 3 3 5 7]"},
		{"a back end for a stranger", set.ForBackEnd(p, "shop", store.UnknownBrowser).Policy.Rules, "[3 3 3 3 3 3 3 3 5 7]"},
		{"the built-in policy, closed", set.ForBrowser(builtIn, "shop", store.UnknownBrowser).Policy.Rules, "[5 5 5 5 5 5 5 5 5 7]"},
		{"the built-in policy, open", set.ForBrowser(builtIn, "open", store.UnknownBrowser).Policy.Rules, "[3 3 3 3 3 3 3 3 5 7]"},
	} {
		var limits []int
		for _, r := range c.rules {
			limits = append(limits, r.Limit)
		}
		servertest.Same(t, c.what, fmt.Sprint(limits), c.want)
	}
	for _, r := range p.Policy.Rules {
		if r.Limit != 5 { // the reserve lessens the limits of one request's copy alone
			t.Errorf("the policy in force has %d for %s", r.Limit, r.Name)
		}
	}
}

// Of a rule on failures unknown browsers have half, rounded down, and at least one place; all
// others have all.
func TestStrangersHaveHalfOfTheFailures(t *testing.T) {
	for limit, half := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 20: 10} {
		p := policy.Purpose{Policy: quota.Policy{Rules: []quota.Rule{{Name: "bad", Scope: quota.Failures, Limit: limit}}}}
		for class, want := range map[store.Class]int{store.SecretKeyClass: limit, store.KnownBrowser: limit, store.UnknownBrowser: half} {
			got := (policy.Set{}).ForClass(p, "shop", class).Policy.Rules[0].Limit
			servertest.Same(t, fmt.Sprintf("of %d failures %q has", limit, class), got, want)
		}
	}
}
