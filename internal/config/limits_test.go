package config

import (
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

func TestLimits(t *testing.T) {
	c, err := loadYAML(`limits:
  gift:
    - {name: today, key: user, limit: 1, per: day, time_zone: Asia/Shanghai}
    - {name: week, key: user, limit: 3, days: 7, time_zone: Asia/Shanghai}
  web:
    - {name: minute, key: [resource, ip], limit: 100, window: 60s, mode: observe}
`)
	if err != nil {
		t.Fatal(err)
	}
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
	again, err := loadYAML(c.YAML())
	if err != nil || again.YAML() != c.YAML() {
		t.Errorf("printed and read again: %v\n%s", err, c.YAML())
	}
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
	for name, test := range map[string][2]string{
		"no rules":       {"{a: []}", "c.yaml:1: limits: a has no rule"},
		"no key":         {"{a: [{name: b, limit: 1, window: 1s}]}", "limits.a[0]: key is missing"},
		"keys of none":   {"{a: [{name: b, key: [], limit: 1, window: 1s}]}", "key: must name 1 to 8 keys"},
		"too many keys":  {"{a: [{name: b, key: [a, b, c, d, e, f, g, h, i], limit: 1, window: 1s}]}", "key: must name 1 to 8 keys"},
		"a key's name":   {"{a: [{name: b, key: Some One, limit: 1, window: 1s}]}", "limits.a[0].key"},
		"a key twice":    {"{a: [{name: b, key: [x, x], limit: 1, window: 1s}]}", "is there twice"},
		"name twice":     {"{a: [{name: b, key: x, limit: 1, window: 1s}, {name: b, key: x, limit: 2, window: 2s}]}", "b is there twice"},
		"limit's name":   {"{A b: [{name: b, key: x, limit: 1, window: 1s}]}", "limits.A b"},
		"no limit":       {"{a: [{name: b, key: x, window: 1s}]}", "limit is missing"},
		"limit of 0":     {"{a: [{name: b, key: x, limit: 0, window: 1s}]}", "limits.a[0].limit"},
		"no window":      {"{a: [{name: b, key: x, limit: 1}]}", "window, per or days is missing"},
		"both":           {"{a: [{name: b, key: x, limit: 1, window: 1s, per: day}]}", "does not go together with per"},
		"a zone alone":   {"{a: [{name: b, key: x, limit: 1, window: 1s, time_zone: UTC}]}", "goes together with per or days only"},
		"half a second":  {"{a: [{name: b, key: x, limit: 1, window: 500ms}]}", "limits.a[0].window"},
		"unknown period": {"{a: [{name: b, key: x, limit: 1, per: year}]}", "limits.a[0].per"},
		"no days":        {"{a: [{name: b, key: x, limit: 1, days: 0}]}", "limits.a[0].days: 0 is not within 1 and 31"},
		"too many days":  {"{a: [{name: b, key: x, limit: 1, days: 32}]}", "limits.a[0].days: 32 is not within 1 and 31"},
		"days, period":   {"{a: [{name: b, key: x, limit: 1, days: 7, per: day}]}", "limits.a[0].per: does not go together with days"},
		"days, window":   {"{a: [{name: b, key: x, limit: 1, days: 7, window: 1s}]}", "limits.a[0].window: does not go together with days"},
		"unknown field":  {"{a: [{name: b, scope: ip, key: x, limit: 1, window: 1s}]}", "scope"},
	} {
		_, err := loadYAML("limits: " + test[0])
		if err == nil || !strings.Contains(err.Error(), test[1]) {
			t.Errorf("%s: %v, want %s", name, err, test[1])
		}
	}
}
