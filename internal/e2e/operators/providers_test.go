package operators

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

const (
	hookSecret = "a-secret-of-the-provider-and-ours"
	hookYAML   = `provider_events:
  - name: post
    scheme: basic
    user: sendcode
    secret_env: POST_SECRET
    message_header: X-PM-Metadata-send
    message: [Metadata.send, message-id]
    type: [RecordType, Type]
    outcomes: {Delivery: delivered, Bounce.HardBounce: bounced_for_good, Bounce: bounced, SpamComplaint: complained}
    recipient: [Recipient, Email]
    time: [DeliveredAt, BouncedAt]
    detail: [Details, Type]
`
)

// told posts what the provider tells.
func told(s *apptest.Stack, i int, body string) apptest.Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/events/post", body, func(r *http.Request) { r.SetBasicAuth("sendcode", hookSecret) })
}

func provided(s *apptest.Stack) *apptest.Stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  default:\n"+apptest.Roomy+hookYAML), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Env["SENDCODE_CONFIG"], s.Env["POST_SECRET"] = file, hookSecret
	return s
}

// From the mail to the event and back to the next request: a mail that was taken bounces later, and no other one is sent.
func TestProviderTellsOfABounce(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		provided(s).Start(1)
		spec := s.SpecRouter()
		a := s.Wait(0, apptest.Ana)
		if a.StatusCode != http.StatusAccepted || a.Send.Status != "sent" {
			s.Fatalf("%d %s", a.StatusCode, a.Raw)
		}
		if s.SMTP != nil {
			if mail := string(s.SMTP.Messages()[0].Data); !strings.Contains(mail, "X-PM-Metadata-send: "+a.Send.ID+"\r\n") {
				s.Errorf("the mail does not name its send")
			}
		}
		bounce := `{"RecordType":"Bounce","Type":"HardBounce","Metadata":{"send":"` + a.Send.ID + `"},"Email":"` + apptest.Ana + `","BouncedAt":"2026-03-04T05:06:07Z","Details":"smtp;550 5.1.1 <` + apptest.Ana + `> unknown"}`
		for _, c := range []struct {
			body   string
			status int
			change func(*http.Request)
		}{
			{`{"RecordType":"Delivery","message-id":"<` + a.Send.ID + `@localhost>","Recipient":"` + apptest.Ana + `"}`, 204, nil},
			{strings.Replace(bounce, apptest.Ana, "bo@example.com", 1), 204, nil}, // not who got it
			{strings.Replace(bounce, a.Send.ID, "0198c1d2-7a54-7a3e-8a4f-0123456789ab", 1), 204, nil},
			{`[` + bounce + `,` + bounce + `,{"RecordType":"Open"}]`, 204, nil},
			{bounce, 401, func(r *http.Request) { r.SetBasicAuth("sendcode", hookSecret+"x") }},
			{bounce, 401, func(*http.Request) {}}, // an API key is no provider's secret
			{`{`, 400, nil},
			{strings.Repeat(" ", 1<<20) + `{}`, 413, nil},
		} {
			var got apptest.Answer
			if c.change == nil {
				got = told(s, 0, c.body)
			} else {
				got = s.Do(0, http.MethodPost, "/v1/events/post", c.body, c.change)
			}
			if got.StatusCode != c.status {
				s.Errorf("%.100s: %d %s, want %d", c.body, got.StatusCode, got.Raw, c.status)
			}
			if err := apptest.Conforms(spec, http.MethodPost, "/v1/events/post", got); err != nil {
				s.Errorf("%d: %v", got.StatusCode, err)
			}
		}
		asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apptest.Token) }
		story := s.Do(0, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, "", asAdmin)
		for _, part := range []string{`"status":"sent"`, `"counts":true`, `"kind":"delivered"`, `"kind":"bounced","at":"2026-03-04T05:06:07.000Z"`, `"detail":"550 5.1.1"`, `"reason":"hard_bounce"`, "bounced later"} {
			if !strings.Contains(string(story.Raw), part) {
				s.Errorf("%s is not in %s", part, story.Raw)
			}
		}
		if strings.Contains(string(story.Raw), apptest.Ana) {
			s.Error("the provider's words show the address")
		}
		if err := apptest.Conforms(spec, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, story); err != nil {
			s.Error(err)
		}
		if again := s.Wait(0, apptest.Ana); again.StatusCode != http.StatusBadGateway || again.Send.Reason != "suppressed" {
			s.Errorf("%d %s", again.StatusCode, again.Raw)
		}
		if n := len(s.Mails()); n != 1 {
			s.Errorf("%d mails", n)
		}
		metrics := string(s.Do(0, http.MethodGet, "/metrics", "").Raw)
		for outcome, n := range map[string]string{"delivered": "1", "bounced": "1", "repeated": "1", "unmapped": "1", "unknown_message": "1", "other_recipient": "1", "forged": "2", "malformed": "1", "complained": "0"} {
			if line := `sendcode_provider_events_total{outcome="` + outcome + `",provider="post"} ` + n + "\n"; !strings.Contains(metrics, line) {
				s.Errorf("no %s", line)
			}
		}
		if out := s.Printed.String() + s.Config().YAML(); strings.Contains(out, hookSecret) {
			s.Error("the secret is shown")
		}
	})
}
