package config

import (
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

func TestLimits(t *testing.T) {
	c := must(t, `limits:
  gift:
    - {name: today, key: user, limit: 1, per: day, time_zone: Asia/Shanghai}
    - {name: week, key: user, limit: 3, days: 7, time_zone: Asia/Shanghai}
  web:
    - {name: minute, key: [resource, ip], limit: 100, window: 60s, mode: observe}
`)
	gift, web := c.Limits["gift"][0], c.Limits["web"][0]
	if r := gift.Rule(); len(gift.Keys) != 1 || gift.Keys[0] != "user" || r.Per != quota.Day || r.Zone.String() != "Asia/Shanghai" || r.Limit != 1 {
		t.Errorf("%+v", gift)
	}
	if r := c.Limits["gift"][1].Rule(); r.Days != 7 || r.Per != "" || r.Window != 0 || r.Zone.String() != "Asia/Shanghai" || r.Limit != 3 {
		t.Errorf("%+v", r)
	}
	if r := web.Rule(); strings.Join(web.Keys, " ") != "resource ip" || r.Window != time.Minute || !r.Observe || r.Limit != 100 {
		t.Errorf("%+v", web)
	}
	readBack(t, c)
}

func TestReturnURLs(t *testing.T) {
	for text, right := range map[string]bool{
		"https://shop.example": true, "https://shop.example/signup": true, "https://shop.example/signup/": true, "http://localhost:3000/done": true,
		"shop.example": false, "https://shop.example/*": false, "https://shop.example/a?b=c": false, "https://shop.example/a#b": false,
		"https://u@shop.example/": false, "https://Shop.example/": false, "https://shop.example/a/../b": false, "https://shop.example/a%2fb": false,
		"https://shop.example:443/": false, "javascript:alert(1)": false, "/signup": false,
	} {
		if got := checkReturnURL(text) == ""; got != right {
			t.Errorf("%s: %q", text, checkReturnURL(text))
		}
	}
}

func TestMistakesInLimits(t *testing.T) {
	refused(t, map[string]string{
		"limits: {a: []}": "c.yaml:1: limits: a has no rule",
		"limits: {a: [{name: b, key: [], limit: 1, window: 1s}]}":                          "key: must name 1 to 8 keys",
		"limits: {a: [{name: b, key: [a, b, c, d, e, f, g, h, i], limit: 1, window: 1s}]}": "key: must name 1 to 8 keys",
		"limits: {A b: [{name: b, key: x, limit: 1, window: 1s}]}":                         "limits.A b",
		"limits: {a: [{name: b, key: x, limit: 0, window: 1s}]}":                           "limits.a[0].limit",
		"limits: {a: [{name: b, key: x, limit: 1}]}":                                       "window, per or days is missing",
		"limits: {a: [{name: b, key: x, limit: 1, window: 1s, time_zone: UTC}]}":           "goes together with per or days only",
		"limits: {a: [{name: b, key: x, limit: 1, days: 7, per: day}]}":                    "limits.a[0].per: does not go together with days",
	})
}
