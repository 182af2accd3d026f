package config

import (
	"testing"
	"time"

	"sendcode/quota"
)

// The limiter gets the rules as they were meant, and of every policy that a purpose can use one with scope failures.
func TestRules(t *testing.T) {
	c := must(t, `
policies:
  own: [{name: day, scope: recipient, limit: 2, window: 24h}, {name: bounces, scope: failures, limit: 5, window: 1h, mode: observe}]
  default:
    - {name: day, scope: recipient, limit: 2, window: 24h, mode: enforce}
    - {name: own, scope: recipient, limit: 3, window: 1h, callers: browsers}
    - {name: today, scope: recipient, limit: 1, per: day, mode: observe}
  office: [{name: a, scope: ip, limit: 2, window: 24h}]
limits:
  gift: [{name: week, key: user, limit: 3, days: 7, time_zone: Asia/Shanghai}]
  web: [{name: minute, key: [resource, ip], limit: 100, window: 60s, mode: observe}]
`)
	day := quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 2, Window: 24 * time.Hour}
	for policy, want := range map[string][]quota.Rule{
		"own": {day, {Name: "bounces", Scope: quota.Failures, Limit: 5, Window: time.Hour, Observe: true}},
		"default": {
			day, {Name: "own", Scope: quota.Recipient.OfBrowsers(), Limit: 3, Window: time.Hour},
			{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day, Zone: time.UTC, Observe: true},
			{Name: "failures", Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour},
		},
		"office": {{Name: "a", Scope: quota.IP, Limit: 2, Window: 24 * time.Hour}}, // no purpose can use it
	} {
		is(t, policy, c.Policy(policy).Rules, want)
	}
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	is(t, "gift", c.Limits["gift"][0].QuotaRule(), quota.Rule{Name: "week", Limit: 3, Days: 7, Zone: shanghai})
	is(t, "web", c.Limits["web"][0].QuotaRule(), quota.Rule{Name: "minute", Limit: 100, Window: time.Minute, Observe: true})
}
