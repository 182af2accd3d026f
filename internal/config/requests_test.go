package config

import (
	"slices"
	"testing"
)

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
