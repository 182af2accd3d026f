package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/verification/verificationtest"
)

// A back end may ask for the quota before it sends. With the same trust and client_ip, the quota
// equals that of the send: the same rules, and the same wait as in the refusal of the send.
func TestQuotaEqualsThatOfASend(t *testing.T) {
	const home, elsewhere = `,"client_ip":"203.0.113.9"`, `,"client_ip":"198.51.100.7"`
	verificationtest.InBubble(t, func(r *verificationtest.Rig) {
		back := client{r.T, r.Svc.Routes(api.Keys{keyOf("shop", secret)}, api.Services{}), "192.0.2.1", secret}
		type quota struct {
			Allowed   bool
			BlockedBy string `json:"blocked_by"`
			Rules     []struct {
				Name      string
				Remaining int
			}
		}
		ask := func(path, to, also string) (status int, q quota) {
			w := back.do(http.MethodPost, path, fmt.Sprintf(`{"channel":"email","to":%q%s}`, to, also))
			var body struct{ Quota quota }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%s with %q: %d %s", path, also, w.Code, w.Body)
			}
			return w.Code, body.Quota
		}
		names := func(q quota) string {
			var names []string
			for _, rule := range q.Rules {
				names = append(names, rule.Name)
			}
			return strings.Join(names, " ")
		}
		nth := 0
		person := func() string { nth++; return verificationtest.NthAddress(nth) }
		for also, rules := range map[string]string{
			"": "minute hour day", home: "minute hour day client network", `,"trust":"known"`: "minute hour day",
		} {
			to := person()
			_, looked := ask("/v1/quota", to, also)
			status, sent := ask("/v1/verifications", to, also)
			if names(looked) != rules || status != http.StatusAccepted || names(sent) != rules {
				t.Errorf("with %q: the quota has %s, the send %d %s, want %s", also, names(looked), status, names(sent), rules)
			}
		}
		for range 99 { // the rule client admits 100 in an hour
			ask("/v1/verifications", person(), home)
		}
		for _, c := range []struct {
			also, blockedBy string
		}{{"", ""}, {home, "client"}, {elsewhere, ""}, {home + `,"trust":"known"`, ""}} {
			to := person()
			_, looked := ask("/v1/quota", to, c.also)
			status, sent := ask("/v1/verifications", to, c.also)
			admitted := status == http.StatusAccepted
			if looked.BlockedBy != c.blockedBy || looked.Allowed != (c.blockedBy == "") || admitted != looked.Allowed ||
				!admitted && sent.BlockedBy != c.blockedBy {
				t.Errorf("with %q: the quota says %v %q, the send %d %q; want %q", c.also, looked.Allowed, looked.BlockedBy, status,
					sent.BlockedBy, c.blockedBy)
			}
		}
		if w := back.do(http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q,"client_ip":"192.0.2"}`, alice)); w.Code !=
			http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"field":"client_ip"`) {
			t.Errorf("an address that is none: %d %s", w.Code, w.Body)
		}
	})
}
