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

// From the mail to the event and back to the next request: a mail that was taken bounces later, and
// no other one is sent.
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
	bounce := `{"RecordType":"Bounce","Type":"HardBounce","Metadata":{"send":"` + a.Send.ID + `"},"Email":"` +
		apptest.Ana + `","Details":"smtp;550 5.1.1 <` + apptest.Ana + `> unknown"}`
	for secret, status := range map[string]int{hookSecret + "x": http.StatusUnauthorized,
		hookSecret: http.StatusNoContent} {
		got := s.Post("/v1/events/post", bounce, func(r *http.Request) { r.SetBasicAuth("sendcode", secret) })
		s.Is(secret, got, status)
		apptest.Must(t, apptest.Conforms(spec, http.MethodPost, "/v1/events/post", got))
	}
	story := s.Get("/v1/admin/sends/"+a.Send.ID, apptest.AsAdmin)
	for _, part := range []string{
		`"status":"sent"`, `"counts":true`, `"kind":"bounced"`, `"detail":"550 5.1.1"`, `"reason":"hard_bounce"`,
		"bounced later",
	} {
		if !strings.Contains(string(story.Raw), part) || strings.Contains(string(story.Raw), apptest.Ana) {
			t.Errorf("%s is not in %s, or it shows the address", part, story.Raw)
		}
	}
	apptest.Must(t, apptest.Conforms(spec, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, story))
	again := s.Ask(0, apptest.Ana, apptest.Patiently)
	s.Is("the next send", again, http.StatusBadGateway, again.Send.Reason == "suppressed", len(s.Mails()) == 1)
	for outcome, n := range map[string]string{"bounced": "1", "forged": "1", "complained": "0"} {
		s.Counts(`sendcode_provider_events_total{outcome="`+outcome+`"`, n)
	}
	if out := s.Printed.String() + s.Config().YAML(); strings.Contains(out, hookSecret) {
		t.Error("the secret is shown")
	}
}

// A topic of Amazon SNS: what is not signed by Amazon is refused before anything is asked for
// outside, and a subscription is accepted by an administrator, which the audit log and the
// process's own log have.
func TestATopicOfAmazon(t *testing.T) {
	t.Parallel()
	const topic = "arn:aws:sns:eu-west-1:123456789012:ses-events"
	s := apptest.Embedded(t).Policy(apptest.Roomy + `provider_events:
  - {name: ses, scheme: sns, topic: "` + topic + `", message: mail.tags.send, type: eventType, outcomes: {Complaint: complained}}
`)
	s.Start(1)
	spec := s.SpecRouter()
	forged := s.Post("/v1/events/ses",
		`{"Type":"Notification","TopicArn":"`+topic+`","Message":"{}","SigningCertURL":"https://sns.example/x.pem"}`,
		func(r *http.Request) { r.Header.Set("Content-Type", "text/plain; charset=UTF-8") })
	s.Is("a forged message", forged, http.StatusUnauthorized)
	apptest.Must(t, apptest.Conforms(spec, http.MethodPost, "/v1/events/ses", forged))
	s.Counts(`sendcode_provider_events_total{outcome="forged"`, "1")
	for body, status := range map[string]int{
		`{"provider":"ses","reason":"ticket 7"}`:  http.StatusNoContent,
		`{"provider":"post","reason":"ticket 7"}`: http.StatusUnprocessableEntity,
	} {
		got := s.Post("/v1/admin/subscriptions", body, apptest.AsAdmin)
		s.Is(body, got, status)
		apptest.Must(t, apptest.Conforms(spec, http.MethodPost, "/v1/admin/subscriptions", got))
	}
	acts := s.Get("/v1/admin/acts?what=subscription.accept", apptest.AsAdmin)
	if text := string(acts.Raw); strings.Count(text, `"outcome":"begun"`) != 1 || !strings.Contains(text, "ticket 7") {
		t.Errorf("the audit log: %s", text)
	}
	if printed := s.Printed.String(); strings.Count(printed, "subscription.accept") != 1 ||
		strings.Contains(printed, "ticket 7") {
		t.Errorf("the log lines of one action: %s", printed)
	}
}
