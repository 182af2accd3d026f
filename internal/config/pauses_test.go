package config

import (
	"slices"
	"testing"
	"time"

	"sendcode/internal/recipient"
)

func TestPausesAndSuppressions(t *testing.T) {
	c, err := loadYAML("paused:\n  - {channel: sms, reason: pumping}\n  - {channel: email, purpose: default}\nsuppressions: {for: 48h}")
	if err != nil {
		t.Fatal(err)
	}
	want := []Pause{{Channel: recipient.SMS, Reason: "pumping"}, {Channel: recipient.Email, Purpose: "default"}}
	if !slices.Equal(c.Pauses, want) || c.Suppressions.For != 48*time.Hour {
		t.Errorf("%+v, %v", c.Pauses, c.Suppressions)
	}
	again, err := loadYAML(c.YAML())
	if err != nil || again.YAML() != c.YAML() {
		t.Errorf("printed and read: %v", err)
	}
	byDefault, _ := loadYAML("addr: 127.0.0.1:80")
	if byDefault.Suppressions.For != 720*time.Hour || byDefault.Pauses != nil {
		t.Errorf("%+v", byDefault.Suppressions)
	}
	if off, err := loadYAML("suppressions: {for: 0s}"); err != nil || off.Suppressions.For != 0 {
		t.Errorf("%v, %v", off.Suppressions, err)
	}
	if got := byDefault.Differs(c); !slices.Equal(got, []string{"paused", "suppressions"}) {
		t.Errorf("differs: %v", got)
	}
	if got := byDefault.Renewed(c); !slices.Equal(got.Pauses, want) || got.Suppressions != c.Suppressions {
		t.Errorf("renewed: %+v", got.Pauses)
	}
	for yaml, want := range map[string]string{
		"paused: [{reason: x}]":       "c.yaml:1: paused[0]: must have a channel, a purpose, or both",
		"paused: [{channel: pigeon}]": "c.yaml:1: paused[0].channel: must be email or sms",
		"paused: [{purpose: gifts}]":  "c.yaml:1: paused[0].purpose: there is no purpose gifts",
		"paused: {channel: email}":    "c.yaml:1: paused: must be a list",
		"suppressions: {for: 30m}":    "c.yaml:1: suppressions.for: must be from 1h to 8784h, or 0s for none",
		"suppressions: {for: 8785h}":  "c.yaml:1: suppressions.for: must be from 1h to 8784h, or 0s for none",
		"suppressions: {for: 30d}":    "c.yaml:1: suppressions.for: days and weeks are written in hours: 24h, 168h",
		"suppressions: {until: 1h}":   "c.yaml:1: suppressions.until: there is no such key",
	} {
		_, err := loadYAML(yaml)
		if got := mistakes(err); !slices.Contains(got, want) {
			t.Errorf("%s: %q", yaml, got)
		}
	}
}

func TestRetention(t *testing.T) {
	byDefault, err := loadYAML("")
	if err != nil || byDefault.Retention != 2160*time.Hour {
		t.Errorf("%v, %v", byDefault.Retention, err)
	}
	for text, want := range map[string]time.Duration{"768h": 768 * time.Hour, "87840h": 87840 * time.Hour, "0s": 0} {
		c, err := loadYAML("retention: " + text)
		if err != nil || c.Retention != want {
			t.Errorf("%s: %v, %v", text, c.Retention, err)
		}
		if got := byDefault.Differs(c); !slices.Equal(got, []string{"retention"}) || byDefault.Renewed(c).Retention != want {
			t.Errorf("%s: differs in %v", text, got)
		}
	}
	for text, said := range map[string]string{
		"767h": "must be from 768h to 87840h, or 0s for ever", "87841h": "must be from 768h to 87840h, or 0s for ever",
		"-1h": "must be from 768h to 87840h, or 0s for ever", "90d": "days and weeks are written in hours: 24h, 168h",
	} {
		_, err := loadYAML("retention: " + text)
		if got := mistakes(err); !slices.Contains(got, "c.yaml:1: retention: "+said) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
