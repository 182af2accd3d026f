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

func TestMistakesInLimits(t *testing.T) {
	refused(t, map[string]string{
		"limits: {a: []}": "c.yaml:1: limits: a has no rule",
		"limits: {a: [{name: b, key: [a, b, c, d, e, f, g, h, i], limit: 1, window: 1s}]}": "key: must name 1 to 8 keys",
		"limits: {a: [{name: b, key: x, limit: 1}]}":                                       "window, per or days is missing",
		"limits: {a: [{name: b, key: x, limit: 1, window: 1s, time_zone: UTC}]}":           "goes together with per or days only",
	})
}
