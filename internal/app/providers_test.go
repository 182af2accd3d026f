package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
func (s *stack) told(i int, body string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/events/post", body, func(r *http.Request) { r.SetBasicAuth("sendcode", hookSecret) })
}

func (s *stack) provided() *stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  default:\n"+roomy+hookYAML), 0o600); err != nil {
		s.Fatal(err)
	}
	s.env["SENDCODE_CONFIG"], s.env["POST_SECRET"] = file, hookSecret
	return s
}

// From the mail to the event and back to the next request: a mail that was taken bounces later, and nobody gets another one.
func TestProviderTellsOfABounce(t *testing.T) {
	onEach(t, func(s *stack) {
		s.provided().start(1)
		spec := s.specification()
		a := s.wait(0, ana)
		if a.status != http.StatusAccepted || a.Send.Status != "sent" {
			s.Fatalf("%d %s", a.status, a.raw)
		}
		if s.smtp != nil {
			if mail := string(s.smtp.Messages()[0].Data); !strings.Contains(mail, "X-PM-Metadata-send: "+a.Send.ID+"\r\n") {
				s.Errorf("the mail does not name its send")
			}
		}
		bounce := `{"RecordType":"Bounce","Type":"HardBounce","Metadata":{"send":"` + a.Send.ID + `"},"Email":"` + ana + `","BouncedAt":"2026-03-04T05:06:07Z","Details":"smtp;550 5.1.1 <` + ana + `> unknown"}`
		for _, c := range []struct {
			body   string
			status int
			change func(*http.Request)
		}{
			{`{"RecordType":"Delivery","message-id":"<` + a.Send.ID + `@localhost>","Recipient":"` + ana + `"}`, 204, nil},
			{strings.Replace(bounce, ana, "bo@example.com", 1), 204, nil}, // not who got it
			{strings.Replace(bounce, a.Send.ID, "0198c1d2-7a54-7a3e-8a4f-0123456789ab", 1), 204, nil},
			{`[` + bounce + `,` + bounce + `,{"RecordType":"Open"}]`, 204, nil},
			{bounce, 401, func(r *http.Request) { r.SetBasicAuth("sendcode", hookSecret+"x") }},
			{bounce, 401, func(*http.Request) {}}, // an API key is no provider's secret
			{`{`, 400, nil},
			{strings.Repeat(" ", 1<<20) + `{}`, 413, nil},
		} {
			var got answer
			if c.change == nil {
				got = s.told(0, c.body)
			} else {
				got = s.do(0, http.MethodPost, "/v1/events/post", c.body, c.change)
			}
			if got.status != c.status {
				s.Errorf("%.100s: %d %s, want %d", c.body, got.status, got.raw, c.status)
			}
			if err := conforms(spec, http.MethodPost, "/v1/events/post", got); err != nil {
				s.Errorf("%d: %v", got.status, err)
			}
		}
		asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
		story := s.do(0, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, "", asAdmin)
		for _, part := range []string{`"status":"sent"`, `"counts":true`, `"kind":"delivered"`, `"kind":"bounced","at":"2026-03-04T05:06:07.000Z"`, `"detail":"550 5.1.1"`, `"reason":"hard_bounce"`, "bounced later"} {
			if !strings.Contains(string(story.raw), part) {
				s.Errorf("%s is not in %s", part, story.raw)
			}
		}
		if strings.Contains(string(story.raw), ana) {
			s.Error("the provider's words show the address")
		}
		if err := conforms(spec, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, story); err != nil {
			s.Error(err)
		}
		if again := s.wait(0, ana); again.status != http.StatusBadGateway || again.Send.Reason != "suppressed" {
			s.Errorf("%d %s", again.status, again.raw)
		}
		if n := len(s.mails()); n != 1 {
			s.Errorf("%d mails", n)
		}
		metrics := string(s.do(0, http.MethodGet, "/metrics", "").raw)
		for outcome, n := range map[string]string{"delivered": "1", "bounced": "1", "repeated": "1", "unmapped": "1", "unknown_message": "1", "other_recipient": "1", "forged": "2", "malformed": "1", "complained": "0"} {
			if line := `sendcode_provider_events_total{outcome="` + outcome + `",provider="post"} ` + n + "\n"; !strings.Contains(metrics, line) {
				s.Errorf("no %s", line)
			}
		}
		if out := s.printed.String() + s.config().YAML(); strings.Contains(out, hookSecret) {
			s.Error("the secret is shown")
		}
	})
}

// While the log is away the provider is asked to come again; then it is heard.
func TestProviderComesAgain(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).provided().start(1)
	a := s.wait(0, ana)
	s.postgres.Stop()
	complaint := `{"RecordType":"SpamComplaint","Metadata":{"send":"` + a.Send.ID + `"},"Email":"` + ana + `"}`
	s.unavailable(s.told(0, complaint))
	if err := s.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("the event to be taken", func() bool { return s.told(0, complaint).status == http.StatusNoContent })
	if again := s.wait(0, ana); again.Send.Reason != "suppressed" {
		t.Errorf("%d %s", again.status, again.raw)
	}
}

// Who has seen one signed request of a provider tells nothing with its signature, on whatever replica.
func TestAProvidersSignatureIsGoodOnce(t *testing.T) {
	s := onRealParts(t)
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	text := "policies:\n  default:\n" + roomy + "provider_events:\n  - {name: post, scheme: hmac_fields, secret_env: POST_SECRET, signed: [at, token], signed_time: at, signature: sum, " +
		"message: id, type: kind, outcomes: {ok: delivered, spam: complained}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env["SENDCODE_CONFIG"], s.env["POST_SECRET"] = file, hookSecret
	s.start(2)
	a := s.wait(0, ana)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(stamp + "a-token"))
	body := func(kind string) string {
		return fmt.Sprintf(`{"at":%s,"token":"a-token","sum":"%x","kind":%q,"id":%q}`, stamp, mac.Sum(nil), kind, a.Send.ID)
	}
	for i, kind := range []string{"ok", "spam", "spam", "ok"} {
		if got := s.do(i%2, http.MethodPost, "/v1/events/post", body(kind)); got.status != http.StatusNoContent {
			t.Errorf("%s: %d %s", kind, got.status, got.raw)
		}
	}
	story := s.do(0, http.MethodGet, "/v1/admin/sends/"+a.Send.ID, "", bearer(token))
	if !strings.Contains(string(story.raw), `"kind":"delivered"`) || strings.Contains(string(story.raw), "complained") {
		t.Errorf("%s", story.raw)
	}
	if again := s.wait(1, ana); again.Send.Status != "sent" {
		t.Errorf("the recipient is suppressed: %s", again.raw)
	}
	metrics := string(s.do(1, http.MethodGet, "/metrics", "").raw)
	if !strings.Contains(metrics, `sendcode_provider_events_total{outcome="replayed",provider="post"} 2`+"\n") {
		t.Error("the repetitions are not counted")
	}
}
