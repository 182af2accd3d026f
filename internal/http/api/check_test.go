package api_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
)

// The header of a check: a key is one text in quotes or bare; without one nothing is repeated. The same key with another code is 409
// and no try, also by recipient. Another app, and a browser at a back end's verification, read that there is none; another kind of key
// is 409 and no try.
func TestCheckByKey(t *testing.T) {
	const key, approving, elsewhere = "5f0c9a4be1d24786a35e70c81b9f2d63", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "sk_elsewhere_0123456789abcdef"
	verificationtest.InBubble(t, func(r *verificationtest.Rig) {
		r.Svc.Prover = proof.New(r.Settings.Vault.Ring)
		e := r.Svc.Routes(api.Keys{
			{App: "shop", ID: "s", Kind: verification.BackEnd, SHA256: sha256.Sum256([]byte(secret))},
			{App: "news", ID: "n", Kind: verification.BackEnd, SHA256: sha256.Sum256([]byte(elsewhere))},
			{App: "shop", ID: "p", Kind: verification.Browser, SHA256: sha256.Sum256([]byte(public)), Origins: []string{shop}},
		}, nil)
		back, browser := client{r.T, e, "192.0.2.1", secret}, client{r.T, e, "192.0.2.1", public}
		id := back.admitted(alice)
		r.Sleep(time.Second)
		right := r.LastCode()
		byID := func(code string) (path, body string) {
			return "/v1/verifications/" + id + "/check", fmt.Sprintf(`{"code":%q}`, code)
		}
		byName := func(code string) (path, body string) {
			return "/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, alice, code)
		}
		check := func(by client, path, body, key string, status int, says ...string) string {
			t.Helper()
			w := by.do(http.MethodPost, path, body, key)
			for _, want := range says {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("with %s: %s, want %s", key, w.Body, want)
				}
			}
			if w.Code != status {
				t.Errorf("with %s: %d %s, want %d", key, w.Code, w.Body, status)
			}
			return w.Body.String()
		}
		wrong := r.WrongCode(right)
		for _, ask := range []func(string) (string, string){byID, byName} {
			path, body := ask(wrong)
			for _, bad := range []string{"short", `"5f0c9a4be1d24786`, key + ", " + key, strings.Repeat("k", 256)} {
				check(back, path, body, bad, http.StatusBadRequest, "/problems/bad-request")
			}
			check(back, path, body, key, http.StatusOK, `"valid":false`, `"attempts_remaining":4`)
			check(back, path, body, `"`+key+`"`, http.StatusOK, `"attempts_remaining":4`) // the same key
			path, body = ask(right)
			check(back, path, body, key, http.StatusConflict, "/problems/key-of-other-code")
		}
		first := ""
		for _, ask := range []func(string) (string, string){byID, byName, byID} {
			path, body := ask(right)
			got := check(back, path, body, approving, http.StatusOK, `"valid":true`, `"proof":"`)
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("repeated as %s, first %s", got, first)
			}
			path, body = ask(wrong)
			check(back, path, body, approving, http.StatusConflict, "/problems/key-of-other-code")
		}
		path, body := byID(right)
		check(browser, path, body, approving, http.StatusNotFound, "/problems/not-found")
		check(client{r.T, e, "192.0.2.1", elsewhere}, path, body, approving, http.StatusNotFound, "/problems/not-found")
		if got := check(back, path, body, key, http.StatusOK, `"valid":false`, `"approved"`); strings.Contains(got, `"proof"`) {
			t.Errorf("another key has a proof: %s", got)
		}
		path, body = byName(right)
		check(browser, path, body, approving, http.StatusForbidden)
		check(client{r.T, e, "192.0.2.1", elsewhere}, path, body, approving, http.StatusNotFound, "/problems/not-found")
		for theirs, others := range map[client]client{browser: back, back: browser} { // at a browser's verification, which both may check
			id = browser.admitted(theirs.key + "@example.com")
			r.Sleep(time.Second)
			right = r.LastCode()
			for _, c := range []struct{ code, key, answer string }{
				{r.WrongCode(right), strings.Repeat("0", 32), `"attempts_remaining":4`}, {right, key, `"valid":true`}} {
				path, body := byID(c.code)
				check(theirs, path, body, c.key, http.StatusOK, c.answer)
				check(others, path, body, c.key, http.StatusConflict, "/problems/key-of-other-code")
				check(theirs, path, body, c.key, http.StatusOK, c.answer)
			}
		}
	})
}
