package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/events"
)

var providerVariables = []string{"POSTMARK_SECRET=" + hiddenSecret, "SENDGRID_SECRET=" + hiddenSecret, "MAILGUN_SIGNING_KEY=" + hiddenSecret}

// documented is the example of docs/provider-events.md.
func documented(t *testing.T) (string, Config) {
	t.Helper()
	block := yamlBlocks(t, "provider-events")[0]
	c, err := loadYAML(block, providerVariables...)
	if err != nil {
		t.Fatal(err)
	}
	return block, c
}

func sourceOf(t *testing.T, c Config, name string) events.Source {
	t.Helper()
	i := slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no provider %s", name)
	}
	return c.Providers[i].SourceWithSecret()
}

// The documented examples read payloads of the shapes that these providers document.
func TestDocumentedProviders(t *testing.T) {
	_, c := documented(t)
	const send = "0198c1d2-7a54-7a3e-8a4f-0123456789ab"
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("sendcode", hiddenSecret)
	mac := hmac.New(sha256.New, []byte(hiddenSecret))
	mac.Write([]byte("1772600767tok"))
	for _, x := range []struct {
		file, source string
		header       http.Header
		want         []string // type, outcome, detail
	}{
		{"postmark.json", "postmark", basic.Header, []string{"Bounce.HardBounce bounced_for_good 550 5.1.1"}},
		{"postmark-delivery.json", "postmark", basic.Header, []string{"Delivery delivered "}},
		{"sendgrid.json", "sendgrid", basic.Header, []string{
			"delivered delivered 250", "bounce.bounce bounced_for_good 550 5.1.1", "bounce.blocked bounced 554 5.7.1", "open ignored ", "spamreport complained ",
		}},
		{"mailgun.json", "mailgun", nil, []string{"failed.permanent bounced_for_good 550 5.1.1"}},
	} {
		raw, err := os.ReadFile("testdata/events/" + x.file)
		if err != nil {
			t.Fatal(err)
		}
		body := []byte(strings.NewReplacer("SEND", send, "SIGNATURE", hex.EncodeToString(mac.Sum(nil))).Replace(string(raw)))
		s := sourceOf(t, c, x.source)
		if !s.Verify(x.header, body, at) {
			t.Errorf("%s is not the provider's", x.file)
		}
		if s.Verify(http.Header{}, []byte(strings.Replace(string(body), "tok", "kot", 1)), at) {
			t.Errorf("%s: anybody may say so", x.file)
		}
		all, err := s.Parse(body)
		if err != nil || len(all) != len(x.want) {
			t.Fatalf("%s: %v, %v", x.file, all, err)
		}
		for i, e := range all {
			if got := e.Type + " " + string(e.Outcome) + " " + e.Detail; got != x.want[i] || e.Send.String() != send || e.To != "ana@example.com" || !e.At.Equal(at) || !e.Known {
				t.Errorf("%s: %+v, want %s", x.file, e, x.want[i])
			}
		}
	}
	if h := sourceOf(t, c, "postmark").Header; h != "X-PM-Metadata-send" {
		t.Errorf("mails carry %q", h)
	}
}

// What is printed is what was read, and never a secret.
func TestProvidersArePrinted(t *testing.T) {
	given, c := documented(t)
	if strings.Contains(c.YAML(), hiddenSecret) {
		t.Error("the secret is printed")
	}
	again, err := loadYAML(c.YAML(), providerVariables...)
	if err != nil || again.YAML() != c.YAML() {
		t.Errorf("printed and read: %v\n%s", err, c.YAML())
	}
	if got := must(t, "").RestartChanges(c); !slices.Equal(got, []string{"provider_events"}) {
		t.Errorf("needs a restart: %v", got)
	}
	other, err := loadYAML(given, "POSTMARK_SECRET=another-secret-of-ours", providerVariables[1], providerVariables[2])
	if err != nil || !slices.Equal(c.RestartChanges(other), []string{"provider_events"}) {
		t.Errorf("another secret: %v, %v", c.RestartChanges(other), err)
	}
	const rest = ", secret_env: SECRET, message: a, type: b, outcomes: {c: delivered}}]"
	standard, err := loadYAML("provider_events: [{name: a, scheme: standard_webhooks"+rest, "SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil || len(standard.Providers[0].SourceWithSecret().Auth.Secrets[0]) != 24 || standard.Providers[0].Auth.Header != "webhook-" {
		t.Errorf("%v, %+v", err, standard.Providers)
	}
}

func TestMistakesOfProviders(t *testing.T) {
	const rest = "secret_env: SECRET, message: a, type: b, outcomes: {c: delivered}"
	of := func(fields string) string { return "provider_events: [{" + fields + "}]" }
	refused(t, map[string]string{
		of("name: a, scheme: basic, " + rest):                                                                   "provider_events[0]: user is missing",
		of("name: a, scheme: basic, user: u, message: a, type: b, outcomes: {c: delivered}"):                    "provider_events[0]: secret_env or secret_file is missing",
		of("name: a, scheme: basic, user: u, secret_env: SECRET, message: a, type: b, outcomes: {c: lost}"):     "provider_events[0].outcomes.c: must be delivered, bounced, bounced_for_good, complained, opted_out or ignored",
		of("name: a, scheme: basic, user: u, message_header: Bcc, " + rest):                                     "provider_events[0].message_header: must begin with X-",
		of("name: a, scheme: hmac_fields, signed: [a], signature: b, " + rest):                                  "provider_events[0]: signed_time must be one of signed, or what is signed could be used again for ever",
		of("name: a, scheme: standard_webhooks, " + rest):                                                       "provider_events[0]: the secret must be whsec_ and base64 of at least 16 bytes",
		of("name: a, scheme: basic, user: u, secret_env: SHORT, message: a, type: b, outcomes: {c: delivered}"): "provider_events[0]: the secret must have at least 16 characters",
	})
}
