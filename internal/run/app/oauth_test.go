package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/deliver/delivery/oauth/oauthtest"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// While the token server refuses, sends wait, the mail server counts as suspended, and the log has
// the reason. Afterwards all sends arrive and no recipient is suppressed. No output of the service
// contains the token or the secret.
func TestTokenServerRefuses(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	token := oauthtest.JWT(`"SMTP.SendAsApp"`)
	tokens := oauthtest.Start(t, oauthtest.Refuses("invalid_client", "7000222"))
	s.SMTP = smtptest.Start(t, smtptest.Script{
		TLS: smtptest.STARTTLS, Username: "codes@shop.example", Password: token, OAuth: "m365",
		Mechanisms: []string{"LOGIN", "XOAUTH2"},
	})
	s.Env["SENDCODE_SMTP_URL"], s.Env["SECRET"] = s.SMTP.URL(), oauthtest.Secret
	s.Write("oauth: {m365: {token_url: '" + tokens.Client.TokenURL + "', client_id: client, client_secret_env: SECRET, scope: '" +
		oauth.MicrosoftScope + "'}}").Start(1)
	s.Await("the state without any mail", func() bool {
		return s.Metric(0, `sendcode_mail_server_up{order="1",server="`+s.SMTP.Addr()+`"}`) == "0"
	})
	const people = 5
	for n := range people {
		s.Is("a send", s.Ask(0, fmt.Sprintf("person%d@example.com", n)), http.StatusAccepted)
	}
	s.Await("the readiness", func() bool { _, body := s.Ready(0); return strings.Contains(body, "mail_servers_suspended") })
	for _, text := range []string{
		`"client":"m365"`, "AADSTS7000222: the client's secret has expired",
		`"see":"docs/runbooks.md#sends-wait"`,
	} {
		if !strings.Contains(s.LinesOf("oauth client gets no token"), text) {
			t.Errorf("the log has no line with %s", text)
		}
	}
	tokens.Answer(oauthtest.Gives(token, 60))
	for n := range people {
		s.AwaitMail(fmt.Sprintf("person%d@example.com", n), 1)
	}
	s.Await("the state", func() bool {
		return s.Metric(0, `sendcode_mail_server_up{order="1",server="`+s.SMTP.Addr()+`"}`) == "1"
	})
	smtptest.AllOnce(t, people, s.SMTP)
	suppressed := s.Get("/v1/admin/suppressions", apptest.AsAdmin)
	s.Is("suppressions", suppressed, http.StatusOK, strings.Contains(string(suppressed.Raw), `"suppressions":[]`))
	all := s.Printed.String() + s.Answered.String() + string(s.Get("/metrics").Raw) + string(suppressed.Raw)
	for _, secret := range []string{oauthtest.Secret, token, strings.Split(token, ".")[1]} {
		if strings.Contains(all, secret) {
			t.Error("a secret or token shows")
		}
	}
}
