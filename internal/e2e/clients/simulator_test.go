package clients

import (
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

// A front end can be built against every outcome with nothing but Go.
func TestSimulatedOutcomes(t *testing.T) {
	s := apptest.Embedded(t).Start(1)
	for to, want := range map[string]struct {
		status  string
		allowed bool
	}{
		"bounce@simulator.test":  {"failed", true},
		"unknown@simulator.test": {"unknown", false},
		"slow@simulator.test":    {"sending", false},
		"ana@simulator.test":     {"sent", false},
	} {
		a := s.Ask(0, to)
		var now apptest.Answer
		s.Await("the outcome of "+to, func() bool {
			now = s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "")
			return now.Send.Status == want.status
		})
		if now.Quota.Allowed != want.allowed {
			t.Errorf("%s: %s", to, now.Raw)
		}
	}
}
