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

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/config"
)

// Deployed twice as a platform does, with nothing but variables, on an empty disk, where SMTP is
// closed: codes of the first deploy work in the second, quotas hold, and a person signs up on a
// page of one's own.
func TestDeployedTwiceWithNothingButVariables(t *testing.T) {
	t.Parallel()
	program := servertest.HeadlessShell(t)
	s := apptest.OnRealParts(t)
	provider := mailapitest.Start(t, mailapitest.Rigs()[0])
	database := s.Env["SENDCODE_DATABASE_URL"]
	s.Env = map[string]string{"SENDCODE_DATABASE_URL": database, "SENDCODE_SMTP_URL": provider.URL(),
		"SENDCODE_MAIL_FROM":   "Shop <codes@shop.example>",
		"SENDCODE_CONFIG_YAML": "purposes:\n  sign-up: {ttl: 5m}\n"}
	for line := range strings.Lines(config.GenerateSecretVariables()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.Env[name] = value
	}
	s.Key = s.Env["SENDCODE_API_KEY"]
	var base string // of the newest deploy
	site := pagetest.NewSite("", func() (policy, head, body string) {
		return "default-src 'none'; script-src 'self' " + base + "; connect-src " + base + "; style-src 'self'",
			`<link rel="icon" href="data:,"><script type="module" src="` + base +
				`/widget.js"></script><script type="module" src="/own.js"></script>`,
			`<send-code public-key="` + s.Env["SENDCODE_PUBLIC_KEY"] + `" purpose="sign-up"></send-code>`
	})
	t.Cleanup(site.Close)
	site.Script = "document.querySelector('send-code').addEventListener('approved', e => { window.proof = e.detail.proof })"
	s.Env["SENDCODE_ORIGINS"] = site.Origin()

	mailTo := func(to string) (found apptest.Letter) {
		s.Await("a mail to "+to, func() bool {
			for _, m := range provider.Mails() {
				if m.To == to {
					found = apptest.Letter{To: m.To, Text: m.Text}
				}
			}
			return found.To != ""
		})
		return found
	}
	first := deploy(s, &base)
	a, err := s.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`"}`)
	apptest.Must(t, err)
	s.Is("the first deploy", a, http.StatusAccepted)
	code := s.CodeIn(mailTo(apptest.Ana))
	apptest.Must(t, first.Process.Signal(syscall.SIGTERM))
	apptest.Must(t, first.Wait())

	deploy(s, &base)
	again, err := s.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`"}`)
	apptest.Must(t, err)
	s.Is("a second code within the minute", again, http.StatusTooManyRequests)
	if again.Problem() != "quota-exceeded" || again.Header.Get("Retry-After") == "" {
		t.Errorf("%s", again.Raw)
	}
	checked, err := s.At(base, http.MethodPost, "/v1/verifications/"+a.ID+"/check", `{"code":"`+code+`"}`)
	apptest.Must(t, err)
	if checked.State() != "approved" {
		t.Errorf("the code of the first deploy: %s", checked.Raw)
	}

	browser, stop := pagetest.Browser(t.Context(), program)
	defer stop()
	const person = "dora@example.com"
	field := func(name, text string) {
		t.Helper()
		input := `document.querySelector('send-code').shadowRoot.querySelector('#` + name + `')`
		s.Await("the field "+name, func() bool {
			there, err := pagetest.Eval(browser,
				`String(!!(document.querySelector('send-code')?.shadowRoot && `+input+`))`)
			return err == nil && there == "true"
		})
		_, err := pagetest.Eval(browser, input+`.focus(), ''`)
		apptest.Must(t, err)
		_, err = chromedp.Run(browser, chromedp.KeyEvent(text+kb.Enter))
		apptest.Must(t, err)
	}
	_, err = chromedp.Run(browser, chromedp.Navigate(site.URL))
	apptest.Must(t, err)
	field("to", person)
	field("code", s.CodeIn(mailTo(person)))
	var proof string
	s.Await("the proof", func() bool {
		proof, err = pagetest.Eval(browser, `window.proof || ''`)
		return err == nil && proof != ""
	})
	redeemed, err := s.At(base, http.MethodPost, "/v1/proofs/redeem", fmt.Sprintf(`{"proof":%q}`, proof))
	apptest.Must(t, err)
	if redeemed.StatusCode != http.StatusOK || !strings.Contains(string(redeemed.Raw), `"to":"`+person+`"`) ||
		!strings.Contains(string(redeemed.Raw), `"purpose":"sign-up"`) {
		t.Errorf("the back end redeems: %s", redeemed.Raw)
	}
}

// deploy starts the service as a platform does: on an empty disk, at a port of the platform's
// choice, which PORT names. It sets base.
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
