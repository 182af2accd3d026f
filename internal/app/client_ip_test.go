package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A rule on addresses counts the address that a back end names, never the back end's own, and the start says so.
func TestRulesOnAddressesCountTheClient(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy("    - {name: day, scope: recipient, limit: 9, window: 24h}\n" +
		"    - {name: address, scope: ip, limit: 1, window: 1h}\n").start(1)
	ask := func(n int, more string) answer {
		return s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":"a%d@example.com"%s}`, n, more))
	}
	for n := range 3 {
		if a := ask(n, ""); a.status != http.StatusAccepted || len(a.Quota.Rules) != 1 {
			t.Fatalf("without an address: %d %s", a.status, a.raw)
		}
	}
	for _, c := range []struct {
		address string
		status  int
	}{{"192.0.2.1", 202}, {"192.0.2.1", 429}, {"192.0.2.2", 202}} {
		if a := ask(9, `,"client_ip":"`+c.address+`"`); a.status != c.status || len(a.Quota.Rules) != 2 {
			t.Errorf("%s: %d %s", c.address, a.status, a.raw)
		}
	}
	if !strings.Contains(s.printed.String(), "The rule address of the policy default has the scope ip") {
		t.Error("the start does not tell of it")
	}
}
