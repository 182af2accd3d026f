package config

import (
	"strings"
	"testing"

	"sendcode/quota"
)

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
