package config

import (
	"strings"
	"testing"
)

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
