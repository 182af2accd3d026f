package config

import (
	"strings"
	"testing"
	"time"
)

func TestBoundsOfChecksAndOfAll(t *testing.T) {
	c, err := loadYAML("checks: {network: {limit: 20, window: 10m}}\nbreaker: {limit: 1000, window: 60s}")
	if err != nil {
		t.Fatal(err)
	}
	if c.Checks.Network != (Bound{20, 10 * time.Minute}) || c.Checks.WideNetwork != (Bound{300, time.Hour}) || c.Checks.App != (Bound{10_000, time.Hour}) || c.Breaker != (Bound{1000, time.Minute}) {
		t.Errorf("%+v %+v", c.Checks, c.Breaker)
	}
	if c, err = loadYAML("checks: {wide_network: {limit: 7, window: 2h}}"); err != nil || c.Checks.WideNetwork != (Bound{7, 2 * time.Hour}) {
		t.Errorf("%+v %v", c.Checks, err)
	}
	c, _ = loadYAML("")
	if c.Checks.Network != (Bound{100, time.Hour}) || c.Breaker != (Bound{}) {
		t.Errorf("by default %+v %+v", c.Checks, c.Breaker)
	}
	for file, want := range map[string]string{
		"breaker: {limit: 0, window: 60s}":      "breaker.limit: must be from 1 to 100000",
		"breaker: {limit: 100001, window: 60s}": "breaker.limit: must be from 1 to 100000",
		"breaker: {limit: 5}":                   "breaker: window is missing",
		"breaker: {window: 60s}":                "breaker: limit is missing",
		"breaker: {limit: 5, window: 0s}":       "breaker.window: must be from 1s to 744h",
		"breaker: {limit: 5, window: 745h}":     "breaker.window: must be from 1s to 744h",
		"checks: {app: {limit: x, window: 1h}}": "checks.app.limit: must be a whole number",
		"checks: {country: {}}":                 "checks.country: there is no such key",
	} {
		if _, err := loadYAML(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
