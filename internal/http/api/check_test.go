package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification/verificationtest"
)

// An Idempotency-Key is the same text with or without quotes. With the key, the answer to the right
// code can be repeated, by ID and by recipient. The same key with another code gets 409 and costs
// no attempt. Another app, and a browser that checks a back end's code by ID, get a 404. The key of
// another caller's check gets 409 and costs no attempt.
func TestCheckByKey(t *testing.T) {
	const key, approving, elsewhere = "5f0c9a4be1d24786a35e70c81b9f2d63", "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
		"sk_elsewhere_0123456789abcdef"
	const refused, noneHere = "/problems/key-of-other-code", "/problems/not-found"
	verificationtest.InBubble(t, func(r *verificationtest.Rig) {
		r.Svc.ProofSigner = proof.New(r.Settings.Vault.Ring)
		e := r.Svc.Routes(api.Keys{keyOf("shop", secret), keyOf("news", elsewhere), keyOf("shop", public)}, api.Services{})
		with := func(key string) client { return client{r.T, e, "192.0.2.1", key} }
		back, browser, others := with(secret), with(public), with(elsewhere)
		id := back.admitted(alice)
		r.Sleep(time.Second)
		right := r.LastCode()
		wrong := r.WrongCode(right)
		byID := func() (path, who string) { return "/v1/verifications/" + id + "/check", "" }
		byName := func() (path, who string) { return "/v1/verifications/check", `"channel":"email","to":"` + alice + `",` }
		proofs := map[string]bool{}
		type step struct {
			by        client
			ask       func() (path, who string)
			code, key string
			status    int
			says      string
		}
		check := func(c step) {
			t.Helper()
			path, who := c.ask()
			w := c.by.do(http.MethodPost, path, fmt.Sprintf(`{%s"code":%q}`, who, c.code), "Idempotency-Key", c.key)
			body := w.Body.String()
			if w.Code != c.status || !strings.Contains(body, c.says) || strings.Contains(body, `"proof":"`) != (c.says == `"valid":true`) {
				t.Errorf("%s with %s: %d %s, want %d %s", path, c.key, w.Code, body, c.status, c.says)
			}
			if c.says == `"valid":true` {
				proofs[body] = true
			}
		}
		for _, c := range []step{
			{back, byID, wrong, "short", http.StatusBadRequest, "/problems/bad-request"},
			{back, byID, wrong, key, http.StatusOK, `"attempts_remaining":4`},
			{back, byID, wrong, `"` + key + `"`, http.StatusOK, `"attempts_remaining":4`}, // the same key
			{back, byID, right, key, http.StatusConflict, refused},
			{back, byName, wrong, "short", http.StatusBadRequest, "/problems/bad-request"},
			{back, byName, wrong, key, http.StatusOK, `"attempts_remaining":4`},
			{back, byName, right, key, http.StatusConflict, refused},
			{back, byID, right, approving, http.StatusOK, `"valid":true`},
			{back, byName, right, approving, http.StatusOK, `"valid":true`},
			{back, byID, wrong, approving, http.StatusConflict, refused},
			{back, byName, wrong, approving, http.StatusConflict, refused},
			{back, byID, right, approving, http.StatusOK, `"valid":true`},
			{back, byID, right, key, http.StatusOK, `"status":"approved","valid":false`},
			{browser, byID, right, approving, http.StatusNotFound, noneHere},
			{others, byID, right, approving, http.StatusNotFound, noneHere},
			{browser, byName, right, approving, http.StatusForbidden, ""},
			{others, byName, right, approving, http.StatusNotFound, noneHere},
		} {
			check(c)
		}
		if len(proofs) != 1 {
			t.Errorf("the right code has more than one answer: %v", proofs)
		}
		for theirs, other := range map[client]client{browser: back, back: browser} { // both may check the code of a browser's verification
			id = browser.admitted(theirs.key + "@example.com")
			r.Sleep(time.Second)
			right = r.LastCode()
			for _, c := range []step{
				{theirs, byID, r.WrongCode(right), strings.Repeat("0", 32), http.StatusOK, `"attempts_remaining":4`},
				{theirs, byID, right, key, http.StatusOK, `"valid":true`},
			} {
				check(c)
				check(step{other, byID, c.code, c.key, http.StatusConflict, refused})
				check(c)
			}
		}
	})
}
