package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// A rule on addresses counts the address that a back end names, never the back end's own, and the start says so.
func TestRulesOnAddressesCountTheClient(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy("    - {name: day, scope: recipient, limit: 9, window: 24h}\n" +
		"    - {name: address, scope: ip, limit: 1, window: 1h}\n").Start(1)
	ask := func(n int, more string) apptest.Answer {
		return s.Do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":"a%d@example.com"%s}`, n, more))
	}
	for n := range 3 {
		if a := ask(n, ""); a.StatusCode != http.StatusAccepted || len(a.Quota.Rules) != 1 {
			t.Fatalf("without an address: %d %s", a.StatusCode, a.Raw)
		}
	}
	for _, c := range []struct {
		address string
		status  int
	}{{"192.0.2.1", 202}, {"192.0.2.1", 429}, {"192.0.2.2", 202}} {
		if a := ask(9, `,"client_ip":"`+c.address+`"`); a.StatusCode != c.status || len(a.Quota.Rules) != 2 {
			t.Errorf("%s: %d %s", c.address, a.StatusCode, a.Raw)
		}
	}
	if !strings.Contains(s.Printed.String(), "The rule address of the policy default has the scope ip") {
		t.Error("the start does not tell of it")
	}
}
