package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

func TestEveryPolicyBoundsFailures(t *testing.T) {
	c, err := loadYAML(`
policies:
  own: [{name: day, scope: recipient, limit: 2, window: 24h}, {name: bounces, scope: failures, limit: 5, window: 1h}]
  tried: [{name: day, scope: recipient, limit: 2, window: 24h}, {name: failures, scope: failures, limit: 5, window: 1h, mode: observe}]
  gift: [{name: day, scope: recipient, limit: 2, window: 24h}]
  office: [{name: a, scope: ip, limit: 2, window: 24h}]
`)
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string][]quota.Rule{
		"own":     {{Name: "bounces", Scope: quota.Failures, Limit: 5, Window: time.Hour}},
		"tried":   {{Name: "failures", Scope: quota.Failures, Limit: 5, Window: time.Hour, Observe: true}},
		"gift":    {{Name: "failures", Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour}},
		"default": {{Name: "failures", Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour}},
		"office":  nil, // no purpose can use it
	} {
		if got := quota.OfScope(c.Policies[policy].Rules, quota.Failures); !slices.Equal(got, want) {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}

func TestModeOfARule(t *testing.T) {
	const rules = "\n    - {name: a, scope: recipient, limit: 1, window: 1h, mode: enforce}\n" +
		"    - {name: b, scope: recipient, limit: 1, per: day, mode: observe}\n    - {name: c, scope: ip, limit: 1, window: 1h, mode: observe}\n"
	c, err := loadYAML("policies:\n  default:" + rules)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Policies["default"].Rules
	if got[0].Observe || !got[1].Observe || !got[2].Observe {
		t.Errorf("rules %+v", got)
	}
	printed := c.YAML()
	if n := strings.Count(printed, "mode: observe}"); n != 2 || strings.Contains(printed, "mode: enforce") {
		t.Errorf("printed as\n%s", printed)
	}
	again, err := loadYAML(printed)
	if err != nil || again.YAML() != printed {
		t.Errorf("what was printed means something else: %v\n%v", err, again)
	}
}

func TestRulesForBrowsers(t *testing.T) {
	const shared = "policies:\n  default:\n    - {name: hour, scope: recipient, limit: 5, window: 1h}\n"
	c, err := loadYAML(shared + "    - {name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Policies["default"].Rules[1].Scope; got != quota.Recipient.OfBrowsers() {
		t.Errorf("the scope is %q", got)
	}
	if !strings.Contains(c.YAML(), "{name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}") {
		t.Errorf("printed as\n%s", c.YAML())
	}
	for rules, want := range map[string]string{
		shared + "    - {name: own, scope: recipient, limit: 3, window: 1h, callers: pages}\n":                  "must be browsers",
		shared + "    - {name: own, scope: failures, limit: 3, window: 1h, callers: browsers}\n":                "a rule with scope failures is for all callers",
		"policies:\n  default:\n    - {name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}\n": "recipient",
	} {
		if _, err := loadYAML(rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rules, err)
		}
	}
}
