package policy_test

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

func TestRulesFor(t *testing.T) {
	own := quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute}
	net := quota.Rule{Name: "client", Scope: quota.Network, Limit: 5, Window: time.Minute}
	office := quota.Rule{Name: "office", Scope: quota.IP, Limit: 5, Window: time.Minute, Observe: true}
	failures := quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 4, Window: time.Minute}
	place := quota.Rule{Name: "place", Scope: policy.CountryScope, Limit: 5, Window: time.Minute}
	known := policy.Request{Channel: recipient.Email, Class: store.KnownBrowser, NamesClient: true}
	stranger := policy.Request{Channel: recipient.Email, Class: store.StrangerClass, NamesClient: true}
	text, unnamed, test := stranger, stranger, stranger
	text.Channel, unnamed.NamesClient, test.Test = recipient.SMS, false, true
	var set policy.Set
	for _, c := range []struct {
		rules   []quota.Rule
		request policy.Request
		want    []string
	}{
		{[]quota.Rule{own}, known, []string{"minute", "client", "network"}},
		{[]quota.Rule{own, office}, known, []string{"minute", "office", "network"}},
		{[]quota.Rule{own, net}, known, []string{"minute", "client", "client_"}},
		{[]quota.Rule{own, net, office}, known, []string{"minute", "client", "office"}},
		{[]quota.Rule{own, failures, place}, stranger, []string{"minute", "failures", "backoff", "client", "network"}},
		{[]quota.Rule{own, place}, text, []string{"minute", "place", "client", "network"}},
		{[]quota.Rule{own, net, office}, unnamed, []string{"minute", "unnamed"}},
		{[]quota.Rule{own, net, failures}, test, []string{"minute"}},
		{[]quota.Rule{own, net}, policy.Request{NamesClient: true}, []string{"minute", "client"}},
	} {
		var got []string
		rules := set.RulesFor(policy.Purpose{Policy: quota.Policy{Rules: c.rules}}, c.request)
		for _, r := range rules {
			got = append(got, r.Name)
			if r.Recorded != (r.Name == "failures" || r.Name == "backoff") { // all other rules count sends
				t.Errorf("%+v: the rule %s is recorded: %v", c.request, r.Name, r.Recorded)
			}
		}
		servertest.Same(t, "rules", fmt.Sprint(got), fmt.Sprint(c.want))
		if c.request == known {
			storetest.OK(t, quota.Validate(rules))
		}
		if rules[0].Observe != c.request.Test {
			t.Errorf("%+v: the rule on the recipient observes: %v", c.request, rules[0].Observe)
		}
	}
}

// A rule has a limit for each class of callers, although it counts all classes together. Only rules
// on recipients treat a known browser as known.
func TestRulesForLeavesReservesOfStrangers(t *testing.T) {
	set := policy.Set{
		Breaker: quota.Rule{Name: "breaker", Scope: policy.BreakerScope, Limit: 10}, BreakerReserve: 3,
		Apps: map[string]policy.App{"open": {ReachedByStrangers: true}},
	}
	p := policy.Purpose{Reserve: map[string]int{}}
	for _, scope := range []quota.Scope{
		quota.Recipient, quota.IP, quota.Network, quota.App, quota.Purpose,
		policy.CountryScope, policy.PrefixScope, quota.Global,
	} {
		p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: string(scope), Scope: scope, Limit: 5})
		p.Reserve[string(scope)] = 2
	}
	p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: "free", Scope: quota.App, Limit: 5})
	builtIn := p
	builtIn.BuiltIn = true
	for _, c := range []struct {
		what  string
		p     policy.Purpose
		app   string
		class store.Class
		want  string // the limits of each rule in order, and of the breaker
	}{
		{"a secret key", p, "shop", store.SecretKeyClass, "[5 5 5 5 5 5 5 5 5 10]"},
		{"a known browser", p, "shop", store.KnownBrowser, "[5 3 3 3 3 3 3 3 5 7]"},
		{"a stranger", p, "shop", store.StrangerClass, "[3 3 3 3 3 3 3 3 5 7]"},
		{"the built-in policy, closed", builtIn, "shop", store.StrangerClass, "[5 5 5 5 5 5 5 5 5 7]"},
		{"the built-in policy, open", builtIn, "open", store.StrangerClass, "[3 3 3 3 3 3 3 3 5 7]"},
	} {
		var limits []int
		for _, r := range set.RulesFor(c.p, policy.Request{App: c.app, Channel: recipient.SMS, Class: c.class, NamesClient: true}) {
			limits = append(limits, r.Limit)
		}
		servertest.Same(t, c.what, fmt.Sprint(limits), c.want)
	}
	for _, r := range p.Policy.Rules {
		if r.Limit != 5 { // the reserve changes only the copy of one request
			t.Errorf("the policy in force has %d for %s", r.Limit, r.Name)
		}
	}
}

// In a rule on failures, strangers have half of the places, rounded down, and at least one. The
// other classes have all places.
func TestRulesForGivesStrangersHalfOfFailures(t *testing.T) {
	for limit, half := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 20: 10} {
		p := policy.Purpose{Policy: quota.Policy{Rules: []quota.Rule{{Name: "bad", Scope: policy.FailuresScope, Limit: limit}}}}
		for class, want := range map[store.Class]int{store.SecretKeyClass: limit, store.KnownBrowser: limit, store.StrangerClass: half} {
			got := (policy.Set{}).RulesFor(p, policy.Request{Class: class})[0].Limit
			servertest.Same(t, fmt.Sprintf("of %d failures %q has", limit, class), got, want)
		}
	}
}
