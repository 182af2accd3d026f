package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

// The limiter gets the rules as the file means them. Each policy that a purpose can use gets a rule
// with scope failures.
func TestRules(t *testing.T) {
	c := must(t, `
policies:
  own: [{name: day, scope: recipient, limit: 2, window: 24h}, {name: bounces, scope: failures, limit: 5, window: 1h, mode: observe}]
  default:
    - {name: day, scope: recipient, limit: 2, window: 24h, mode: enforce}
    - {name: own, scope: recipient, limit: 3, window: 1h, reserve: 2}
    - {name: today, scope: recipient, limit: 1, per: day, mode: observe}
  office: [{name: a, scope: ip, limit: 2, window: 24h}]
limits:
  gift: [{name: week, key: user, limit: 3, days: 7, time_zone: Asia/Shanghai}]
  web: [{name: minute, key: [resource, ip], limit: 100, window: 60s, mode: observe}]
`)
	day := quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 2, Window: 24 * time.Hour}
	for policy, want := range map[string][]quota.Rule{
		"own": {day, {Name: "bounces", Scope: policy.FailuresScope, Limit: 5, Window: time.Hour, Observe: true}},
		"default": {
			day,
			{Name: "own", Scope: quota.Recipient, Limit: 3, Window: time.Hour},
			{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day, Zone: time.UTC, Observe: true},
			{Name: "failures", Scope: policy.FailuresScope, Limit: 20, Window: 24 * time.Hour},
		},
		"office": {{Name: "a", Scope: quota.IP, Limit: 2, Window: 24 * time.Hour}}, // no purpose can use it
	} {
		wantEqual(t, policy, c.policy(policy).Rules, want)
	}
	wantEqual(t, "reserve", c.PolicySet(time.Now()).Purposes["default"].Reserve, map[string]int{"own": 2})
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	servertest.OK(t, err)
	wantEqual(t, "gift", c.Limits["gift"][0].QuotaRule(), quota.Rule{Name: "week", Limit: 3, Days: 7, Zone: shanghai})
	wantEqual(t, "web", c.Limits["web"][0].QuotaRule(), quota.Rule{Name: "minute", Limit: 100, Window: time.Minute, Observe: true})
}

// The built-in policy has a reserve if strangers' browsers reach an app, and is marked as built in.
// A policy in the file keeps the reserves that the file gives.
func TestReserveOfTheBuiltInPolicy(t *testing.T) {
	public := "apps: [{name: shop, origins: [https://shop.example], keys: [{id: k, kind: public, sha256: " +
		strings.Repeat("ab", 32) + "}]}]\n"
	written := "policies: {default: [{name: hour, scope: recipient, limit: 3, window: 1h}]}\n"
	byVariable := []string{"SENDCODE_PUBLIC_KEY=pk_" + strings.Repeat("a", 32), "SENDCODE_ORIGINS=https://shop.example"}
	for _, c := range []struct {
		yaml    string
		environ []string
		reserve map[string]int
		builtIn bool
		reached []bool // whether strangers reach the app default and, if there is one, the app shop
	}{
		{"", nil, map[string]int{}, true, []bool{false}},
		{public, nil, map[string]int{"hour": 1, "day": 2}, true, []bool{false, true}},
		{public + written, nil, map[string]int{}, false, []bool{false, true}},
		{"trusted_proxies: [127.0.0.1]\napps: [{name: default}, {name: shop}]", nil, map[string]int{"hour": 1, "day": 2}, true, []bool{true, false}},
		{"page: {app: default}", reachable, map[string]int{"hour": 1, "day": 2}, true, []bool{true}},
		{"", byVariable, map[string]int{"hour": 1, "day": 2}, true, []bool{true}},
	} {
		got := must(t, c.yaml, c.environ...)
		var reached []bool
		for _, a := range got.Apps {
			reached = append(reached, got.reachedByStrangers(a))
		}
		byDefault := got.PolicySet(time.Now()).Purposes["default"]
		wantEqual(t, fmt.Sprint(c.yaml, c.environ), []any{byDefault.Reserve, byDefault.BuiltIn, reached},
			[]any{c.reserve, c.builtIn, c.reached})
	}
	own := must(t, "policies: {own: [{name: day, scope: recipient, limit: 2, window: 24h}]}\npurposes: {gift: {policy: own}}")
	wantEqual(t, "beside the built-in one", own.PolicySet(time.Now()).Purposes["gift"].BuiltIn, false)
}

// If one limit counts many recipients, the default reserve is a fifth of it, and at least 1. With a
// limit of 1 or 2 sends, there is no reserve, so strangers may use all places.
func TestDefaultReserves(t *testing.T) {
	const rules = `policies:
  default:
    - {name: own, scope: recipient, limit: 10, window: 1h}
    - {name: ip, scope: ip, limit: 10, window: 1h}
    - {name: network, scope: network, limit: 10, window: 1h}
    - {name: failed, scope: failures, limit: 10, window: 1h}
    - {name: app, scope: app, limit: 10, window: 1h}
    - {name: purpose, scope: purpose, limit: 9, window: 1h, mode: observe}
    - {name: country, scope: country, limit: 1000, per: day}
    - {name: prefix, scope: prefix, limit: 3, window: 1h}
    - {name: two, scope: global, limit: 2, window: 1h}
    - {name: written, scope: global, limit: 10, window: 1h, reserve: 9}
breaker: {limit: 1000, window: 60s}
sms:
  spend:
    - {scope: global, per: day, limit: 1}
    - {scope: app, per: day, limit: 50, reserve: 0.01}
`
	c := must(t, rules)
	wantEqual(t, "of rules", c.PolicySet(time.Now()).Purposes["default"].Reserve,
		map[string]int{"app": 2, "purpose": 1, "country": 200, "prefix": 1, "written": 9})
	wantEqual(t, "of the breaker", c.Breaker.Reserve, 200)
	wantEqual(t, "of spend caps, in millionths", []int64{c.SMS.Spend[0].Reserve, c.SMS.Spend[1].Reserve}, []int64{200_000, 10_000})
	wantEqual(t, "written for the breaker", must(t, "breaker: {limit: 1000, window: 60s, reserve: 1}").Breaker.Reserve, 1)
	wantEqual(t, "without a breaker", must(t, "").Breaker, breakerSettings{})
}

// A send is not deleted while a rule counts it: the shortest retention outlasts the longest rule,
// in whole hours.
func TestRetentionOutlastsEveryRule(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	servertest.OK(t, err)
	longest := quota.LongestKeep([]quota.Rule{
		{Window: quota.MaxWindow}, {Days: quota.MaxDays, Zone: berlin}, {Per: quota.Month, Zone: berlin},
	})
	for hours := int(longest.Hours()); hours > 0; hours /= 2 {
		if _, err := loadYAML(fmt.Sprintf("retention: %dh", hours)); err == nil {
			t.Errorf("a retention of %d h is taken, and a rule counts for %v", hours, longest)
		}
	}
	if _, err := loadYAML("retention: 768h"); err != nil {
		t.Error(err)
	}
}

// The settings accept the same scopes as package policy.
func TestScopesAreThoseOfRules(t *testing.T) {
	field, _ := reflect.TypeFor[policyRule]().FieldByName("Scope")
	wantEqual(t, "scopes", field.Tag.Get("oneof"), strings.Trim(fmt.Sprint(policy.RuleScopes), "[]"))
}

// A purpose that confirms addresses has a default title in every language of the service, unless
// the file gives the purpose a title.
func TestTitles(t *testing.T) {
	c := must(t,
		"purposes: {confirm: {kind: confirm, code: {length: 8}}, own: {kind: confirm, code: {length: 8}, title: {zh: 用于开通}}, login: {}}")
	all := c.PolicySet(time.Now()).Purposes
	for _, x := range []struct{ purpose, locale, title string }{
		{"confirm", "en-GB", "to confirm your address"},
		{"confirm", "zh-TW", "用于确认您的地址"},
		{"confirm", "es", "para confirmar tu dirección"},
		{"confirm", "ar", "لتأكيد عنوانك"},
		{"confirm", "sux", ""},
		{"own", "zh-CN", "用于开通"},
		{"own", "en", ""},
		{"login", "en", ""},
	} {
		wantEqual(t, x.purpose+" in "+x.locale, all[x.purpose].Titles.ForLocaleOrEmpty(x.locale), x.title)
	}
}
