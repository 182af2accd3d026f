package api

import (
	"net/http"
	"testing"
	"time"
)

func TestPreferredWait(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"wait=5": 5 * time.Second, "WAIT = 5": 5 * time.Second, `wait="5"`: 5 * time.Second, "respond-async, wait=3": 3 * time.Second,
		"wait=0": 0, "wait=100": 20 * time.Second, "wait=99999999": 20 * time.Second, "return=minimal": 0, "": 0, "wait=2;x=1": 2 * time.Second,
	} {
		if got, err := preferredWait(http.Header{"Prefer": {header}}); err != nil || got != want {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	for _, header := range []string{"wait", "wait=", "wait=x", "wait=-1", "wait=1.5"} {
		if _, err := preferredWait(http.Header{"Prefer": {header}}); err == nil {
			t.Errorf("%q is taken", header)
		}
	}
}
