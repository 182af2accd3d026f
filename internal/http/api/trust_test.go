package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// If a request has no trust, the key's setting decides. Any request may have the trust "known". A
// request may have the trust "stranger" only if the key's setting is known. Otherwise the request
// gets a 422 with advice. A resend without trust has the trust of its verification. For strangers
// the rule's limit is lower by its reserve, so the limit in the answer shows the class.
func TestTrustOfAKey(t *testing.T) {
	const whole, strangers = `"limit":30`, `"limit":20`
	hour := verificationtest.WithReserve(map[string]int{"hour": 10},
		verificationtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 30, Window: time.Hour}))
	for _, key := range []struct {
		name    string
		known   bool
		silent  string            // the limit of a request without trust
		refused map[string]string // the text of the 422, by trust
	}{
		{"a key", false, strangers, map[string]string{"stranger": "Leave trust out", "friend": "Leave trust out if"}},
		{"a key with trust known", true, whole, map[string]string{"unknown": "Leave trust out if"}},
	} {
		t.Run(key.name, func(t *testing.T) {
			verificationtest.InBubbleWith(t, hour, func(r *verificationtest.Rig) {
				known := keyOf("shop", secret)
				known.Known = key.known
				back := client{r.T, r.Svc.Routes(api.Keys{known}, api.Services{}), "192.0.2.1", secret}
				ask := func(what, trust string) *httptest.ResponseRecorder {
					if trust != "" {
						trust = fmt.Sprintf(`,"trust":%q`, trust)
					}
					return back.do(http.MethodPost, "/v1/verifications", "{"+what+trust+"}")
				}
				want := func(what string, w *httptest.ResponseRecorder, status int, says string) string {
					t.Helper()
					if w.Code != status || !strings.Contains(w.Body.String(), says) {
						t.Errorf("%s: %d %s, want %d %s", what, w.Code, w.Body, status, says)
					}
					return read(t, w).ID
				}
				ana := `"channel":"email","to":"` + alice + `"`
				for trust, says := range key.refused {
					want(trust, ask(ana, trust), http.StatusUnprocessableEntity, says)
					want(trust, back.do(http.MethodPost, "/v1/quota", fmt.Sprintf(`{%s,"trust":%q}`, ana, trust)),
						http.StatusUnprocessableEntity, says)
				}
				words := map[string]string{"": key.silent, "known": whole}
				if key.known {
					words["stranger"] = strangers
				}
				for first, limit := range words {
					opened := want("a send with "+first, ask(ana, first), http.StatusAccepted, limit)
					if w := want("its quota", back.do(http.MethodPost, "/v1/quota",
						strings.Replace(fmt.Sprintf(`{%s,"trust":%q}`, ana, first), `,"trust":""`, "", 1)), http.StatusOK, limit); w != "" {
						t.Error("a quota has an ID")
					}
					for again, limitAgain := range words {
						if again == "" {
							limitAgain = limit
						}
						want("again with "+again+" after "+first, ask(`"verification_id":"`+opened+`"`, again), http.StatusAccepted, limitAgain)
					}
				}
			})
		})
	}
}

// A retry is treated as a repetition, even if the setting of its key has changed in the meantime.
func TestARetryAfterAnotherTrustOfTheKey(t *testing.T) {
	verificationtest.InBubble(t, func(r *verificationtest.Rig) {
		key := keyOf("shop", secret)
		back := client{r.T, r.Svc.Routes(api.Keys{key}, api.Services{}), "192.0.2.1", secret}
		send := func(body, idempotencyKey string) string {
			w := back.do(http.MethodPost, "/v1/verifications", body, "Idempotency-Key", idempotencyKey)
			if w.Code != http.StatusAccepted {
				t.Fatalf("%s with trust known %v: %d %s", body, key.Known, w.Code, w.Body)
			}
			return read(t, w).ID
		}
		for n, again := range []bool{false, true} {
			first := fmt.Sprintf(`{"channel":"email","to":"person-%d@example.com"}`, n)
			var ids []string
			for _, key.Known = range []bool{again, !again} {
				ids = append(ids, send(first, fmt.Sprintf("5f0c9a4be1d24786a35e70c81b9f2d6%d", n)))
			}
			r.Sleep(time.Minute)
			for _, key.Known = range []bool{again, !again} {
				ids = append(ids, send(fmt.Sprintf(`{"verification_id":%q}`, ids[0]), fmt.Sprintf("0a1b2c3d4e5f60718293a4b5c6d7e8f%d", n)))
			}
			if ids[0] != ids[1] || ids[2] != ids[0] || ids[3] != ids[0] {
				t.Errorf("not one verification: %q", ids)
			}
		}
	})
}
