package parts

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
)

const bounceSecret = "the secret of bounce mails"

// In each form of a service and without faults, the results are exact. TestProve has faults, and
// counts the exceptions.
func TestEachFormIsExactWithoutFaults(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := f.open(t)
			s.Env["BOUNCE_SECRET"] = bounceSecret
			carrier, sms := startAliyun(s)
			s.Write("provider_events: [{name: pipe, scheme: dsn, secret_env: BOUNCE_SECRET}]\n" + askingForWork + sms).Start(f.replicas)
			aSolutionIsOneSend(s, f)
			bounceMails(s, f)
			verificationMessages(s, f, carrier)
		})
	}
}

// The last replica, which need not have sent the mail, matches a bounced mail to its send. A mail
// that was made from the data in a browser's 202 does nothing. Neither a log nor a row has the code
// in the returned mail.
func bounceMails(s *apptest.Stack, f form) {
	last := f.replicas - 1
	file := filepath.Join(s.TempDir(), "secret")
	apptest.Must(s.T, os.WriteFile(file, []byte(bounceSecret), 0o600))
	post := func(id, original string) {
		apptest.Must(s.T, commands.PostBounce(s.Context(),
			commands.BounceTarget{URL: s.Replicas[last].Base + "/v1/events/pipe", SecretFile: file}, nil,
			strings.NewReader("Content-Type: multipart/report; boundary=b\nReferences: <"+id+
				">\n\n--b\nContent-Type: message/delivery-status\n\n"+
				"Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; gone@example.com\nAction: failed\nStatus: 5.1.1\n"+
				"Diagnostic-Code: smtp; 550 5.1.1 User unknown\n\n--b\nContent-Type: message/rfc822\n\n"+original+"\n--b--\n"), io.Discard))
	}
	asked := s.Post("/v1/verifications", `{"channel":"email","to":"gone@example.com","locale":"en"`+known+`}`) // strangers need a pass
	s.Is("a send", asked, http.StatusAccepted)
	letter := s.AwaitMail("gone@example.com", 1)[0]
	s.AwaitState(asked.ID, "sent")
	post(asked.Send.ID+"@example.com", "Subject: x\n")
	if got := s.Verification(asked.ID).Send.Status; got != "sent" {
		s.Errorf("after a mail without the HMAC: %s", got)
	}
	post(strings.Trim(letter.ID, "<>"), letter.Text)
	if got := s.Verification(asked.ID).Send.Status; got != "undelivered" {
		s.Errorf("after the bounce: %s", got)
	}
	for outcome, want := range map[string]string{"unknown_message": "1", "bounced": "1"} {
		if got := s.Metric(last, `sendcode_provider_events_total{outcome="`+outcome+`",provider="pipe"}`); got != want {
			s.Errorf("%s: %s, want %s", outcome, got, want)
		}
	}
	if code := s.CodeIn(letter); s.Logged(code) || s.Postgres != nil && strings.Contains(s.Dump(), code) {
		s.Error("the code is in a log or a row")
	}
}
