package operators

import (
	"net/http"
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

// From the mail to the event and back to the next request: a mail that was taken bounces later, and no other one is sent.
func TestProviderTellsOfABounce(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(apptest.Roomy + hookYAML)
	s.Env["POST_SECRET"] = hookSecret
	s.Start(1)
	spec := s.SpecRouter()
	a := s.Ask(0, apptest.Ana, apptest.Patiently)
	s.Is("a send", a, http.StatusAccepted, a.Send.Status == "sent")
	if mail := s.Mails()[0].Text; !strings.Contains(mail, "X-PM-Metadata-send: "+a.Send.ID+"\r\n") {
		t.Errorf("the mail does not name its send")
	}
	bounce := `{"RecordType":"Bounce","Type":"HardBounce","Metadata":{"send":"` + a.Send.ID + `"},"Email":"` + apptest.Ana + `","BouncedAt":"2026-03-04T05:06:07Z","Details":"smtp;550 5.1.1 <` + apptest.Ana + `> unknown"}`
	for _, c := range []struct {
		body   string
		status int
		secret string
	}{
		{`{"RecordType":"Delivery","message-id":"<` + a.Send.ID + `@localhost>","Recipient":"` + apptest.Ana + `"}`, 204, hookSecret},
		{strings.Replace(bounce, apptest.Ana, "bo@example.com", 1), 204, hookSecret}, // not who got it
		{strings.Replace(bounce, a.Send.ID, "0198c1d2-7a54-7a3e-8a4f-0123456789ab", 1), 204, hookSecret},
		{`[` + bounce + `,` + bounce + `,{"RecordType":"Open"}]`, 204, hookSecret},
		{bounce, 401, hookSecret + "x"},
		{bounce, 401, ""}, // an API key is no provider's secret
		{`{`, 400, hookSecret},
		{strings.Repeat(" ", 1<<20) + `{}`, 413, hookSecret},
	} {
		got := s.Post("/v1/events/post", c.body, func(r *http.Request) {
			if c.secret != "" {
				r.SetBasicAuth("sendcode", c.secret)
			}
		})
		if err := apptest.Conforms(spec, http.MethodPost, "/v1/events/post", got); err != nil || got.StatusCode != c.status {
			t.Errorf("%.100s: %d %s, want %d: %v", c.body, got.StatusCode, got.Raw, c.status, err)
		}
	}
	story := s.Get("/v1/admin/sends/"+a.Send.ID, apptest.AsAdmin)
	for _, part := range []string{`"status":"sent"`, `"counts":true`, `"kind":"delivered"`, `"kind":"bounced","at":"2026-03-04T05:06:07.000Z"`, `"detail":"550 5.1.1"`, `"reason":"hard_bounce"`, "bounced later"} {
		if !strings.Contains(string(story.Raw), part) {
			t.Errorf("%s is not in %s", part, story.Raw)
		}
	}
	if strings.Contains(string(story.Raw), apptest.Ana) {
		t.Error("the provider's words show the address")
	}
	if err := apptest.Conforms(spec, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, story); err != nil {
		t.Error(err)
	}
	again := s.Ask(0, apptest.Ana, apptest.Patiently)
	s.Is("the answer", again, http.StatusBadGateway, again.Send.Reason == "suppressed")
	if n := len(s.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
	metrics := string(s.Get("/metrics").Raw)
	for outcome, n := range map[string]string{"delivered": "1", "bounced": "1", "repeated": "1", "unmapped": "1", "unknown_message": "1", "other_recipient": "1", "forged": "2", "malformed": "1", "complained": "0"} {
		if line := `sendcode_provider_events_total{outcome="` + outcome + `",provider="post"} ` + n + "\n"; !strings.Contains(metrics, line) {
			t.Errorf("no %s", line)
		}
	}
	if out := s.Printed.String() + s.Config().YAML(); strings.Contains(out, hookSecret) {
		t.Error("the secret is shown")
	}
}
