package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/verification/verificationtest"
)

// A back end that keeps neither an ID nor a session sends `to`, and checks `to` and `code`. All its
// users would share one verification of the recipient. Another user of its form, even one in the
// person's network, could use up the tries of the person's code. So the pair works only for a
// person whom the back end knows. Otherwise the answer says what to do, and nothing is counted.
func TestCheckWithoutIDAndSession(t *testing.T) {
	const atHome, elsewhere = "203.0.113.9", "198.51.100.7"
	for name, c := range map[string]struct {
		request string // members of the person's request besides the recipient
		check   string // members of the person's check besides recipient and code
		attack  []string
		found   bool
	}{
		"nothing":   {"", "", []string{""}, false},
		"client_ip": {`,"client_ip":"` + atHome + `"`, `,"client_ip":"` + atHome + `"`, []string{`,"client_ip":"` + atHome + `"`, `,"client_ip":"` + elsewhere + `"`}, false},
		"a session": {`,"session":"s-1"`, `,"session":"s-1"`, []string{"", `,"session":"s-2"`}, true},
		"known":     {`,"trust":"known"`, "", []string{`,"session":"s-2"`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			verificationtest.InBubble(t, func(r *verificationtest.Rig) {
				back := client{r.T, r.Svc.Routes(api.Keys{keyOf("shop", secret)}, api.Services{}), elsewhere, secret}
				sent := back.do(http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, alice, c.request))
				if sent.Code != http.StatusAccepted {
					t.Fatalf("the send: %d %s", sent.Code, sent.Body)
				}
				r.Sleep(time.Second)
				right := r.LastCode()
				check := func(code, also string) (status int, body string) {
					w := back.do(http.MethodPost, "/v1/verifications/check",
						fmt.Sprintf(`{"channel":"email","to":%q,"code":%q%s}`, alice, code, also))
					return w.Code, w.Body.String()
				}
				for range 6 { // one check more than a code allows
					for _, also := range c.attack {
						status, body := check(r.WrongCode(right), also)
						if status != http.StatusNotFound || !strings.Contains(body, "/v1/verifications/{id}/check with the id of the 202") ||
							!strings.Contains(body, "the same session in both requests") {
							t.Errorf("somebody else's check with %q: %d %s", also, status, body)
						}
					}
				}
				switch status, body := check(right, c.check); {
				case c.found && (status != http.StatusOK || !strings.Contains(body, `"valid":true`)):
					t.Errorf("the person's check: %d %s", status, body)
				case !c.found && status != http.StatusNotFound:
					t.Errorf("the person's check: %d %s", status, body)
				}
				id := read(r.T, sent).ID
				if w := back.do(http.MethodPost, "/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, right)); !c.found &&
					(w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"valid":true`)) {
					t.Errorf("by the ID: %d %s", w.Code, w.Body)
				}
			})
		})
	}
}
