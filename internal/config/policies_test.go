package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

func TestEveryPolicyBoundsFailures(t *testing.T) {
	c := must(t, `
policies:
  own: [{name: day, scope: recipient, limit: 2, window: 24h}, {name: bounces, scope: failures, limit: 5, window: 1h}]
  tried: [{name: day, scope: recipient, limit: 2, window: 24h}, {name: failures, scope: failures, limit: 5, window: 1h, mode: observe}]
  default: [{name: day, scope: recipient, limit: 2, window: 24h}]
  office: [{name: a, scope: ip, limit: 2, window: 24h}]
`)
	for policy, want := range map[string][]quota.Rule{
		"own":     {{Name: "bounces", Scope: quota.Failures, Limit: 5, Window: time.Hour}},
		"tried":   {{Name: "failures", Scope: quota.Failures, Limit: 5, Window: time.Hour, Observe: true}},
		"default": {{Name: "failures", Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour}},
		"office":  nil, // no purpose can use it
	} {
		if got := quota.OfScope(c.Policy(policy).Rules, quota.Failures); !slices.Equal(got, want) {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}

func TestModeAndCallersOfARule(t *testing.T) {
	const shared = "policies:\n  default:\n    - {name: hour, scope: recipient, limit: 5, window: 1h, mode: enforce}\n"
	c := must(t, shared+"    - {name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}\n"+
		"    - {name: b, scope: recipient, limit: 1, per: day, mode: observe}\n")
	got := c.Policy("default").Rules
	if got[0].Observe || got[1].Observe || !got[2].Observe || got[1].Scope != quota.Recipient.OfBrowsers() || got[2].Zone != time.UTC {
		t.Errorf("rules %+v", got)
	}
	for _, want := range []string{"{name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}", "per: day, mode: observe}"} {
		if !strings.Contains(c.YAML(), want) {
			t.Errorf("printed as\n%s", c.YAML())
		}
	}
	readBack(t, c)
	refused(t, map[string]string{
		shared + "    - {name: own, scope: recipient, limit: 3, window: 1h, callers: pages}\n":                  "must be browsers",
		shared + "    - {name: own, scope: failures, limit: 3, window: 1h, callers: browsers}\n":                "a rule with scope failures is for all callers",
		"policies:\n  default:\n    - {name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}\n": "recipient",
	})
}

func TestLimits(t *testing.T) {
	c := must(t, `limits:
  gift:
    - {name: today, key: user, limit: 1, per: day, time_zone: Asia/Shanghai}
    - {name: week, key: user, limit: 3, days: 7, time_zone: Asia/Shanghai}
  web:
    - {name: minute, key: [resource, ip], limit: 100, window: 60s, mode: observe}
`)
	gift, web := c.Limits["gift"][0], c.Limits["web"][0]
	if r := gift.QuotaRule(); len(gift.Keys) != 1 || gift.Keys[0] != "user" || r.Per != quota.Day || r.Zone.String() != "Asia/Shanghai" || r.Limit != 1 {
		t.Errorf("%+v", gift)
	}
	if r := c.Limits["gift"][1].QuotaRule(); r.Days != 7 || r.Per != "" || r.Window != 0 || r.Zone.String() != "Asia/Shanghai" || r.Limit != 3 {
		t.Errorf("%+v", r)
	}
	if r := web.QuotaRule(); strings.Join(web.Keys, " ") != "resource ip" || r.Window != time.Minute || !r.Observe || r.Limit != 100 {
		t.Errorf("%+v", web)
	}
	readBack(t, c)
}

func TestMistakesInLimits(t *testing.T) {
	refused(t, map[string]string{
		"limits: {a: []}": "c.yaml:1: limits.a: there is no rule",
		"limits: {a: [{name: b, key: [a, b, c, d, e, f, g, h, i], limit: 1, window: 1s}]}": "key: must name 1 to 8 keys",
		"limits: {a: [{name: b, key: x, limit: 1}]}":                                       "window, per or days is missing",
		"limits: {a: [{name: b, key: x, limit: 1, window: 1s, time_zone: UTC}]}":           "goes together with per or days only",
	})
}
