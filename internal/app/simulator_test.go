package app

import (
	"net/http"
	"testing"
)

// A front end can be built against every outcome with nothing but Go.
func TestSimulatedOutcomes(t *testing.T) {
	s := embedded(t).start(1)
	for to, want := range map[string]struct {
		status  string
		allowed bool
	}{
		"bounce@simulator.test":  {"failed", true},
		"unknown@simulator.test": {"unknown", false},
		"slow@simulator.test":    {"sending", false},
		"ana@simulator.test":     {"sent", false},
	} {
		a := s.ask(0, to)
		var now answer
		s.await("the outcome of "+to, func() bool {
			now = s.do(0, http.MethodGet, "/v1/verifications/"+a.ID, "")
			return now.Send.Status == want.status
		})
		if now.Quota.Allowed != want.allowed {
			t.Errorf("%s: %s", to, now.raw)
		}
	}
}
