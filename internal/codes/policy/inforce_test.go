package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// table formats rules as lines with the name, scope, window and the limits of secret keys, known
// browsers and strangers.
func table(rules []policy.RuleInForce) string {
	var lines []string
	for _, r := range rules {
		line := fmt.Sprint(r.Name, " ", r.Scope, " ", r.Window)
		for _, class := range store.Classes {
			if limit, applies := r.Limits[class]; applies {
				line += fmt.Sprint(" ", limit)
			} else {
				line += " -"
			}
		}
		if r.Policies != nil {
			line += " " + strings.Join(r.Policies, ",")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestRulesInForce(t *testing.T) {
	purpose := func(name string, rules ...quota.Rule) policy.Purpose {
		return policy.Purpose{Name: name, Policy: quota.Policy{Name: name, Rules: rules}, PolicyPurposes: []string{name}}
	}
	minute := quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 4, Window: time.Minute}
	office := quota.Rule{Name: "office", Scope: quota.IP, Limit: 7, Window: time.Hour}
	failures := quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 6, Window: time.Hour}
	builtIn := purpose("default", minute, failures)
	builtIn.BuiltIn, builtIn.Reserve = true, map[string]int{"minute": 1}
	set := policy.Set{
		Purposes: map[string]policy.Purpose{"default": builtIn},
		Apps:     map[string]policy.App{"closed": {}},
		Checks: policy.FailedCheckRules{
			Network:     quota.Rule{Name: "network", Scope: quota.IP, Limit: 100, Window: time.Hour},
			WideNetwork: quota.Rule{Name: "wide_network", Scope: quota.Network, Limit: 300, Window: time.Hour},
			App:         quota.Rule{Name: "app", Scope: quota.App, Limit: 10_000, Window: time.Hour},
		},
	}
	own := func(name string) string { return table(set.RulesInForce(set.Purposes[name])) }
	without := func() string { return fmt.Sprint(set.AppsWithoutReserve(set.Purposes["default"])) }
	servertest.Same(t, "the built-in policy of an app without strangers", own("default"),
		"minute recipient 1m0s 4 4 4\nfailures failures 1h0m0s 6 6 3")
	servertest.Same(t, "apps that differ", without(), "[]")
	set.Apps["open"] = policy.App{ReachedByStrangers: true}
	servertest.Same(t, "the built-in policy of an app with strangers", own("default"),
		"minute recipient 1m0s 4 4 3\nfailures failures 1h0m0s 6 6 3")
	servertest.Same(t, "apps that differ", without(), "[closed]")

	const checks = "\nchecks recipient 24h0m0s 20 20 20\nchecks recipient 720h0m0s 100 100 100" +
		"\nnetwork ip 1h0m0s 100 100 100\nwide_network network 1h0m0s 300 300 300"
	sends, wrong := set.BuiltInRules()
	servertest.Same(t, "one policy", table(sends)+"\n"+table(wrong), "backoff backoff 1h0m0s 20 20 20\n"+
		"client ip 1h0m0s - 100 100\nnetwork network 1h0m0s - 1000 1000\nunnamed unnamed 1h0m0s - - 1000"+checks)

	set.Purposes["gift"] = purpose("gift", minute, office)
	set.Breaker = quota.Rule{Name: policy.BreakerName, Scope: policy.BreakerScope, Limit: 50, Window: time.Hour}
	set.BreakerReserve = 10
	servertest.Same(t, "a policy's own rule", own("gift"), "minute recipient 1m0s 4 4 4\noffice ip 1h0m0s 7 7 7")
	sends, _ = set.BuiltInRules()
	servertest.Same(t, "two policies, of which one replaces a rule", table(sends), "backoff backoff 1h0m0s 20 20 20 default\n"+
		"client ip 1h0m0s - 100 100 default\nnetwork network 1h0m0s - 1000 1000\nbreaker everything 1h0m0s 50 40 40\n"+
		"unnamed unnamed 1h0m0s - - 1000")
}
