package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns/snstest"
	"sendcode/internal/kit/servertest"
)

var providerVariables = []string{
	"POSTMARK_SECRET=" + hiddenSecret, "SENDGRID_SECRET=" + hiddenSecret,
	"MAILGUN_SIGNING_KEY=" + hiddenSecret,
	"RESEND_WEBHOOK_SECRET=whsec_" + standardSecret,
}

// standardSecret is a secret for signatures by Standard Webhooks.
const standardSecret = "aGlkZGVuIHNlY3JldCBvZiBhIHdlYmhvb2s="

// documentedConfig returns the settings of deploy/provider-events.yaml.
func documentedConfig(t *testing.T) Config {
	t.Helper()
	return must(t, read(t, "../../../deploy/provider-events.yaml"), providerVariables...)
}

// The documented settings read the payloads that these providers document.
func TestDocumentedProviders(t *testing.T) {
	const send = "0198c1d2-7a54-7a3e-8a4f-0123456789ab"
	sources, at := map[string]feedback.Source{}, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, p := range documentedConfig(t).Providers {
		sources[p.Name] = p.SourceWithSecret()
	}
	eventsIn := func(what, source string, body []byte) (got []string) {
		t.Helper()
		all, err := sources[source].Parse(body)
		servertest.OK(t, err)
		for _, e := range all {
			got = append(got, e.Type+" "+string(e.Meaning)+" "+e.Detail)
			wantEqual(t, what, []any{e.Send.String(), e.To, e.At.Unix(), e.Mapped}, []any{send, "ana@example.com", at.Unix(), true})
		}
		return got
	}
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("sendcode", hiddenSecret)
	svix := func(file string) http.Header {
		secret, err := base64.StdEncoding.DecodeString(standardSecret)
		servertest.OK(t, err)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("msg_1.1772600767." + strings.ReplaceAll(read(t, "testdata/events/"+file), "SEND", send)))
		return http.Header{
			"Svix-Id": {"msg_1"}, "Svix-Timestamp": {"1772600767"},
			"Svix-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
		}
	}
	mac := hmac.New(sha256.New, []byte(hiddenSecret))
	mac.Write([]byte("1772600767tok"))
	for _, x := range []struct {
		file, source string
		header       http.Header
		want         []string // type, meaning, detail
	}{
		{"postmark.json", "postmark", basic.Header, []string{"Bounce.HardBounce bounced_for_good 550 5.1.1"}},
		{"postmark-delivery.json", "postmark", basic.Header, []string{"Delivery delivered "}},
		{"postmark-auto.json", "postmark", basic.Header, []string{"Bounce.AutoResponder ignored AutoResponder"}},
		{"postmark-subscription.json", "postmark", basic.Header, []string{
			"SubscriptionChange.true.ManualSuppression opted_out ", "SubscriptionChange.true.HardBounce bounced_for_good ",
			"SubscriptionChange.true.SpamComplaint complained ", "SubscriptionChange.false ignored ",
		}},
		{"sendgrid-more.json", "sendgrid", basic.Header, []string{
			"bounce.bounce.552 5.2.2 mailbox full bounced_for_good 552 5.2.2", "dropped.Bounced Address bounced ",
			"dropped.Spam Reporting Address complained ", "dropped.Unsubscribed Address opted_out ", "unsubscribe opted_out ",
			"group_unsubscribe opted_out ", "group_resubscribe ignored ", "deferred ignored 451", "processed ignored ",
		}},
		{"sendgrid.json", "sendgrid", basic.Header, []string{
			"delivered delivered 250", "bounce.bounce.550 5.1.1 <ana@example.com> unknown bounced_for_good 550 5.1.1",
			"bounce.blocked.554 5.7.1 blocked by policy bounced 554 5.7.1",
			"open ignored ", "spamreport complained ",
		}},
		{"resend.json", "resend", svix("resend.json"), []string{"email.bounced.Permanent bounced_for_good 550 5.1.1"}},
		{"resend-delivery.json", "resend", svix("resend-delivery.json"), []string{"email.delivered delivered "}},
		{"resend-suppressed.json", "resend", svix("resend-suppressed.json"), []string{"email.suppressed bounced_for_good "}},
		{"resend-failed.json", "resend", svix("resend-failed.json"), []string{"email.failed bounced reached_daily_quota"}},
		{"mailgun.json", "mailgun", nil, []string{"failed.permanent.suppress-bounce bounced_for_good 550 5.1.1"}},
		{"mailgun-old.json", "mailgun", nil, []string{"failed.permanent.old bounced old"}},
		{"mailgun-rejected.json", "mailgun", nil, []string{"rejected bounced "}},
		{"mailgun-unsubscribed.json", "mailgun", nil, []string{
			"failed.permanent.suppress-unsubscribe opted_out suppress-unsubscribe",
		}},
	} {
		body := strings.NewReplacer("SEND", send, "SIGNATURE",
			hex.EncodeToString(mac.Sum(nil))).Replace(read(t, "testdata/events/"+x.file))
		s := sources[x.source]
		wantEqual(t, x.file+": of the provider", s.Verify(x.header, []byte(body), at), true)
		wantEqual(t, x.file+": of others", s.Verify(http.Header{}, []byte(strings.Replace(body, "tok", "kot", 1)), at), false)
		wantEqual(t, x.file, eventsIn(x.file, x.source, []byte(body)), x.want)
	}
	amazon := snstest.New(t)
	wantEqual(t, "topic of the example", sources["ses"].Auth.Topic, snstest.Topic)
	for file, want := range map[string]string{
		"bounce": "Bounce.Permanent bounced_for_good 550 5.1.1", "full": "Bounce.Transient bounced 552 5.2.2",
		"complaint": "Complaint complained abuse",
		"delivery":  "Delivery delivered 250 2.6.0", "reject": "Reject bounced ", "delay": "DeliveryDelay ignored ",
		"identity": "Bounce.Undetermined bounced ", "rendering": "Rendering Failure bounced ",
		"unsubscribe": "Subscription.true opted_out ",
	} {
		text := strings.ReplaceAll(read(t, "testdata/events/ses-"+file+".json"), "SEND", send)
		body := amazon.Sign(snstest.Notification(text, at))
		wantEqual(t, "ses: without its certificate", sources["ses"].Verify(http.Header{}, body, at), false)
		m, err := amazon.Subscriber().Verify(t.Context(), body, at)
		servertest.OK(t, err)
		wantEqual(t, "ses: "+file, eventsIn("ses: "+file, "ses", []byte(m.Text)), []string{want})
	}
	wantEqual(t, "header of mails", sources["postmark"].Header, "X-PM-Metadata-send")
}

// The printed settings equal those that were read, without the secrets.
func TestProvidersArePrinted(t *testing.T) {
	c := documentedConfig(t)
	if strings.Contains(c.YAML(), hiddenSecret) {
		t.Error("the secret is printed")
	}
	again := must(t, c.YAML(), providerVariables...)
	wantEqual(t, "printed and read", again.YAML(), c.YAML())
	again.Providers[0].Secret = document.NewSecret("another-secret-of-ours")
	wantEqual(t, "needs a restart", c.RestartChanges(again), []string{"provider_events"})
	standard := must(t, "provider_events: [{name: a, scheme: standard_webhooks, secret_env: SECRET, message: a, type: b, "+
		"outcomes: {c: delivered}}]", "SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").Providers[0]
	wantEqual(t, "key and header", []any{len(standard.SourceWithSecret().Auth.Secrets[0]), standard.Auth.Header}, []any{24, "webhook-"})
}
