package clients

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

const (
	sender  = "sk_sendersabcdefghijABCDEFGHIJ01"
	checker = "sk_checkersabcdefghijABCDEFGHIJ0"
)

// scoped has two keys of the app default, each with one scope. SENDCODE_API_KEY has all.
func scoped(s *apptest.Stack, second string) *apptest.Stack {
	s.Helper()
	file := s.Env["SENDCODE_CONFIG"]
	if file == "" {
		file = filepath.Join(s.TempDir(), "sendcode.yaml")
		s.Env["SENDCODE_CONFIG"] = file
	}
	text := fmt.Sprintf("apps:\n  - name: default\n    keys:\n      - {id: sender, kind: secret, scopes: [send], sha256: %x}\n      - {id: checker, kind: secret, scopes: [%s], sha256: %x}\n",
		sha256.Sum256([]byte(sender)), second, sha256.Sum256([]byte(checker)))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return s
}

// A key does what its scopes say, and a refusal sends, checks and spends nothing.
func TestKeyScopes(t *testing.T) {
	s := scoped(apptest.Embedded(t), "check").Start(1)
	refused := func(method, path, body, key, scope string) {
		t.Helper()
		a := s.Do(0, method, path, body, apptest.Bearer(key))
		if a.StatusCode != 403 || a.Type != "/problems/insufficient-scope" || !strings.Contains(string(a.Raw), "the scope "+scope+".") {
			t.Errorf("%s %s: %d %s", method, path, a.StatusCode, a.Raw)
		}
		if err := apptest.Conforms(s.Specification(), method, path, a); err != nil {
			t.Error(err)
		}
	}
	to := `{"channel":"email","to":"` + apptest.Ana + `"}`
	refused(http.MethodPost, "/v1/verifications", to, checker, "send")
	sent := s.Do(0, http.MethodPost, "/v1/verifications", to, apptest.Bearer(sender))
	if sent.StatusCode != 202 || sent.Send.Number != 1 {
		t.Fatalf("%d %s", sent.StatusCode, sent.Raw)
	}
	code := fmt.Sprintf(`{"code":%q}`, s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0]))
	path := "/v1/verifications/" + sent.ID
	for _, key := range []string{sender, checker} {
		refused(http.MethodGet, path, "", key, "read")
		refused(http.MethodPost, "/v1/quota", to, key, "read")
		refused(http.MethodGet, "/v1/channels", "", key, "read")
	}
	refused(http.MethodPost, path+"/check", code, sender, "check")
	refused(http.MethodPost, "/v1/verifications/check", to, sender, "check")
	refused(http.MethodPost, path+"/cancel", "", checker, "send")
	if a := s.Do(0, http.MethodPost, path+"/check", code, apptest.Bearer(checker)); a.StatusCode != 200 || !a.Valid {
		t.Errorf("a key for checks: %d %s", a.StatusCode, a.Raw)
	}
	for _, c := range [][2]string{{http.MethodGet, path}, {http.MethodPost, path + "/cancel"}} {
		if a := s.Do(0, c[0], c[1], ""); a.StatusCode != 200 {
			t.Errorf("a key without scopes: %v: %d %s", c, a.StatusCode, a.Raw)
		}
	}
}
