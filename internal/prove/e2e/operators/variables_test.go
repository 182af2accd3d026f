//go:build nightly

package operators

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/config"
)

// The service is deployed twice as a hosting platform does it: configured only by variables, on an
// empty disk, and without SMTP. Codes of the first deploy work in the second, quotas hold, and a
// person signs up on the app's own page.
func TestDeployedTwiceWithNothingButVariables(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	provider := mailapitest.Start(t)
	const page, person = "https://shop.example", "dora@example.com"
	s.Env = map[string]string{
		"SENDCODE_DATABASE_URL": s.Env["SENDCODE_DATABASE_URL"], "SENDCODE_SMTP_URL": provider.URL(),
		"SENDCODE_MAIL_FROM": "Shop <codes@shop.example>", "SENDCODE_ORIGINS": page,
		"SENDCODE_CONFIG_YAML": "purposes:\n  sign-up: {ttl: 5m}\n",
	}
	for line := range strings.Lines(config.GenerateSecretVariables()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.Env[name] = value
	}
	s.Key = s.Env["SENDCODE_API_KEY"]
	var base string // the URL of the newest deploy
	post := func(path, body string, change ...func(*http.Request)) apptest.Answer {
		t.Helper()
		a, err := s.At(base, http.MethodPost, path, body, change...)
		apptest.Must(t, err)
		return a
	}
	codeTo := func(to string) (code string) {
		s.Await("a mail to "+to, func() bool {
			for _, m := range provider.Mails() {
				if m.To == to {
					code = s.CodeIn(apptest.Letter{Text: m.Text})
				}
			}
			return code != ""
		})
		return code
	}
	first := deploy(s, &base)
	const ask = `{"channel":"email","to":"` + apptest.Ana + `"}`
	a := post("/v1/verifications", ask)
	s.Is("the first deploy", a, http.StatusAccepted)
	code := codeTo(apptest.Ana)
	apptest.Must(t, first.Process.Signal(syscall.SIGTERM))
	apptest.Must(t, first.Wait())

	deploy(s, &base)
	again := post("/v1/verifications", ask)
	s.Is("a second code within the minute", again, http.StatusTooManyRequests, again.Problem() == "quota-exceeded",
		again.Header.Get("Retry-After") != "")
	checked := post("/v1/verifications/"+a.ID+"/check", `{"code":"`+code+`"}`)
	s.Is("the code of the first deploy", checked, http.StatusOK, checked.State() == "approved")

	inThePage := func(r *http.Request) {
		apptest.As(s.Env["SENDCODE_PUBLIC_KEY"])(r)
		r.Header.Set("Origin", page)
	}
	sent := post("/v1/verifications", `{"channel":"email","to":"`+person+`","purpose":"sign-up"}`, inThePage)
	s.Is("a code for the page", sent, http.StatusAccepted, sent.Header.Get("Access-Control-Allow-Origin") == page)
	confirmed := post("/v1/verifications/"+sent.ID+"/check", `{"code":"`+codeTo(person)+`"}`, inThePage)
	redeemed := post("/v1/proofs/redeem", fmt.Sprintf(`{"proof":%q}`, confirmed.Proof))
	s.Is("the page's proof", redeemed, http.StatusOK, redeemed.To == person, strings.Contains(string(redeemed.Raw), `"purpose":"sign-up"`))
}

// deploy starts the service as a hosting platform does: on an empty disk, and on a port that the
// platform sets in PORT. It sets base to the address.
func deploy(s *apptest.Stack, base *string) *exec.Cmd {
	s.Helper()
	port := servertest.FreePort(s.T)
	s.Env["PORT"], s.Env["SENDCODE_DRAIN"] = fmt.Sprint(port), "0s"
	*base = fmt.Sprint("http://127.0.0.1:", port)
	cmd := s.Program("serve")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.TempDir(), io.Discard, s.Printed
	apptest.Must(s.T, cmd.Start())
	s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.Await("the service", func() bool {
		a, err := s.At(*base, http.MethodGet, "/readyz", "")
		return err == nil && a.StatusCode == http.StatusOK
	})
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) != 0 {
		s.Errorf("the disk has %v, %v", left, err)
	}
	return cmd
}
