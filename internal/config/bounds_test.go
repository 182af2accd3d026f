package config

import (
	"testing"
	"time"
)

func TestBoundsOfChecksAndOfAll(t *testing.T) {
	of := func(yaml string) (bounds [5]Bound) {
		c := must(t, yaml)
		return [5]Bound{c.Checks.Network, c.Checks.WideNetwork, c.Checks.App, c.Spellings, c.Breaker}
	}
	byDefault := [5]Bound{{100, time.Hour}, {300, time.Hour}, {10_000, time.Hour}, {20, 24 * time.Hour}}
	for yaml, change := range map[string]struct {
		index int
		want  Bound
	}{
		"": {}, "checks: {network: {limit: 20, window: 10m}}": {0, Bound{20, 10 * time.Minute}}, "breaker: {limit: 1000, window: 60s}": {4, Bound{1000, time.Minute}},
		"spellings: {limit: 40, window: 12h}": {3, Bound{40, 12 * time.Hour}}, "spellings: {}": {3, Bound{}},
	} {
		want := byDefault
		if yaml != "" {
			want[change.index] = change.want
		}
		if got := of(yaml); got != want {
			t.Errorf("%q: %v, want %v", yaml, got, want)
		}
	}
	refused(t, map[string]string{
		"spellings: {limit: 0, window: 24h}":    "spellings.limit: must be from 1 to 100000",
		"spellings: {limit: 20}":                "spellings: window is missing",
		"breaker: {limit: 100001, window: 60s}": "breaker.limit: must be from 1 to 100000",
		"breaker: {limit: 5, window: 0s}":       "breaker.window: must be from 1s to 744h",
		"breaker: {limit: 5, window: 745h}":     "breaker.window: must be from 1s to 744h",
		"checks: {country: {}}":                 "checks.country: there is no such key",
		"requests_per_minute: -1":               "must be from 1 to 1000000, or 0 for no limit",
		"retention: 767h":                       "c.yaml:1: retention: must be from 768h to 87840h, or 0s for ever",
		"retention: 90d":                        "c.yaml:1: retention: days and weeks are written in hours: 24h, 168h",
		"suppressions: {for: 30m}":              "c.yaml:1: suppressions.for: must be from 1h to 8784h, or 0s for none",
	})
	for _, none := range []string{"requests_per_minute: 0", "retention: 0s", "suppressions: {for: 0s}"} {
		if c := must(t, none); c.RequestsPerMinute != 0 && c.Retention != 0 && c.Suppressions.For != 0 {
			t.Errorf("%s: %+v", none, c)
		}
	}
}
