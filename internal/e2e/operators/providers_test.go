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
	for body, secret := range map[string]string{
		`{"RecordType":"Delivery","message-id":"<` + a.Send.ID + `@localhost>","Recipient":"` + apptest.Ana + `"}`: hookSecret,
		`[` + bounce + `,` + bounce + `,{"RecordType":"Open"}]`:                                                    hookSecret,
		bounce: hookSecret + "x",
	} {
		got := s.Post("/v1/events/post", body, func(r *http.Request) { r.SetBasicAuth("sendcode", secret) })
		if err := apptest.Conforms(spec, http.MethodPost, "/v1/events/post", got); err != nil || (got.StatusCode == http.StatusNoContent) != (secret == hookSecret) {
			t.Errorf("%.100s: %d %s: %v", body, got.StatusCode, got.Raw, err)
		}
	}
	story := s.Get("/v1/admin/sends/"+a.Send.ID, apptest.AsAdmin)
	for _, part := range []string{`"status":"sent"`, `"counts":true`, `"kind":"delivered"`, `"kind":"bounced"`, `"at":"2026-03-04T05:06:07.000Z"`, `"detail":"550 5.1.1"`, `"reason":"hard_bounce"`, "bounced later"} {
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
	for outcome, n := range map[string]string{"delivered": "1", "bounced": "1", "repeated": "1", "unmapped": "1", "forged": "1", "complained": "0"} {
		s.Counts(`sendcode_provider_events_total{outcome="`+outcome+`"`, n)
	}
	if out := s.Printed.String() + s.Config().YAML(); strings.Contains(out, hookSecret) {
		t.Error("the secret is shown")
	}
}
