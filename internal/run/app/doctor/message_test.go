package doctor

import (
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/deliver/testmessage"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/config"
)

// The doctor sends the test message through the configured mail server or carrier. It names the
// server or carrier that accepted the message, or the reason of the refusal.
func TestDoctorSendsATestMessage(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	server := smtptest.Start(t, smtptest.Script{})
	s.Env["SENDCODE_SMTP_URL"] = server.URL()
	sendAndExpect := func(to string, change func(*config.Config), want string) {
		t.Helper()
		cfg := s.Config()
		cfg.TestRecipient = to
		if change != nil {
			change(&cfg)
		}
		var out strings.Builder
		newDoctor(cfg, &out).sendTestMessage(t.Context())
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q is not in %s", to, want, out.String())
		}
	}
	sendAndExpect("ana@example.com", nil, "✓ test message: 127.0.0.1 accepted it for a•••@example.com after ")
	mails := server.Await(1)
	for _, part := range []string{testmessage.Code, testmessage.Details} {
		if !strings.Contains(string(mails[0].Data), part) {
			t.Errorf("%q is not in %s", part, mails[0].Data)
		}
	}
	sendAndExpect("ana@example.com", func(c *config.Config) {
		c.Apps = append(c.Apps, config.App{Name: "second", Title: "The Second", MailFrom: "second@example.com"})
		c.TestApp = "second"
	}, "✓ test message: ")
	if second := string(server.Await(2)[1].Data); !strings.Contains(second, "<second@example.com>") {
		t.Errorf("the app's sender is not in %s", second)
	}
	server.SetScript(smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Rcpt, Reply: "550 5.1.1 no such user"}}})
	sendAndExpect("bo@example.com", nil, "✗ test message: 127.0.0.1 did not accept it for b•••@example.com: ")
	sendAndExpect("bo@example.com", nil, "5.1.1")
	sendAndExpect("ana@example.com", func(c *config.Config) { c.TestApp = "other" }, "✗ test message: there is no app other")
	sendAndExpect("ana@example.com", func(c *config.Config) { c.SMTPURL = "" }, "✗ test message: no mail server is configured")
	const number = "+4915123456789"
	sendAndExpect(number, nil, "✗ test message: no carrier is configured")
	carrier := apptest.NewCarrier(t)
	s.Add("sms:\n  countries: [DE]\n  carriers: [{name: rest, type: http, url: \"" + carrier.URL + "/\", body: \"to={to}&text={text}\"}]\n")
	sendAndExpect(number, nil, "✓ test message: rest accepted it for +49 151•••789 after ")
	carrier.Close()
	sendAndExpect(number, nil, "✗ test message: rest did not accept it for +49 151•••789: ")
}
