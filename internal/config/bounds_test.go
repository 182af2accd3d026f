package config

import (
	"slices"
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
	if c.Spellings != (Bound{20, 24 * time.Hour}) {
		t.Errorf("spellings by default %+v", c.Spellings)
	}
	if c, err = loadYAML("spellings: {limit: 40, window: 12h}"); err != nil || c.Spellings != (Bound{40, 12 * time.Hour}) {
		t.Errorf("%+v %v", c.Spellings, err)
	}
	if c, err = loadYAML("spellings: {}"); err != nil || c.Spellings != (Bound{}) {
		t.Errorf("turned off: %+v %v", c.Spellings, err)
	}
	for file, want := range map[string]string{
		"spellings: {limit: 0, window: 24h}":    "spellings.limit: must be from 1 to 100000",
		"spellings: {limit: 20}":                "spellings: window is missing",
		"spellings: off":                        "spellings: must be key: value pairs",
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

// A policy that lets browsers ask for more than the bound on spellings is told of, since the bound refuses first.
func TestAPolicyAboveTheBoundOnSpellings(t *testing.T) {
	public := "apps: [{name: default, origins: [https://a.example], keys: [{id: a, kind: public, sha256: 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5}]}]\n"
	for rules, told := range map[string]bool{
		"{name: day, scope: recipient, limit: 20, window: 24h}":                                                                         false,
		"{name: day, scope: recipient, limit: 21, window: 24h}":                                                                         true,
		"{name: hour, scope: recipient, limit: 1, window: 1h}":                                                                          true,
		"{name: hour, scope: recipient, limit: 1, window: 1h}, {name: day, scope: recipient, limit: 5, window: 24h}":                    false,
		"{name: hour, scope: recipient, limit: 9, window: 1h}, {name: day, scope: recipient, limit: 9, window: 24h, callers: browsers}": false,
		"{name: hour, scope: recipient, limit: 9, window: 1h}, {name: day, scope: recipient, limit: 9, window: 24h, mode: observe}":     true,
		"{name: today, scope: recipient, limit: 10, per: day}":                                                                          false,
		"{name: today, scope: recipient, limit: 11, per: day}":                                                                          true,
	} {
		for _, apps := range []string{public, ""} {
			c, err := loadYAML(apps + "policies: {default: [" + rules + "]}")
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Contains(strings.Join(c.Warnings, "\n"), "The policy default lets one address have more codes within 24h than spellings (20)")
			if got != (told && apps != "") {
				t.Errorf("%s with a public key (%v): %q", rules, apps != "", c.Warnings)
			}
		}
	}
	c, err := loadYAML(public + "spellings: {}\npolicies: {default: [{name: day, scope: recipient, limit: 100, window: 24h}]}")
	if err != nil || strings.Contains(strings.Join(c.Warnings, "\n"), "spellings") {
		t.Errorf("%v %q", err, c.Warnings)
	}
}

func TestRequestsPerMinute(t *testing.T) {
	for text, want := range map[string]int{"": 300, "requests_per_minute: 0": 0, "requests_per_minute: 1": 1, "requests_per_minute: 1000000": 1_000_000} {
		if c, err := loadYAML(text); err != nil || c.RequestsPerMinute != want {
			t.Errorf("%q: %d, %v", text, c.RequestsPerMinute, err)
		}
	}
	for _, text := range []string{"-1", "1000001", "many", "5.5"} {
		if _, err := loadYAML("requests_per_minute: " + text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	first, _ := loadYAML("")
	next, _ := loadYAML("requests_per_minute: 7")
	if got := first.Differs(next); !slices.Equal(got, []string{"requests_per_minute"}) || first.Renewed(next).RequestsPerMinute != 7 {
		t.Errorf("%v", got)
	}
}
