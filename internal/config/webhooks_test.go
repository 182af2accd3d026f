package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	hookOne   = "whsec_Q2hlZXIgdXAsIGl0IGlzIGEgdGVzdCBzZWNyZXQh"
	hookTwo   = "whsec_QW5vdGhlciBzZWNyZXQgb2YgZW5vdWdoIGJ5dGVz"
	hookThree = "whsec_VGhlIHRoaXJkIG9uZSBvZiBlbm91Z2ggYnl0ZXMu"
)

const hooked = `
apps:
  - webhook: {url: "https://shop.example:8443/hooks?of=sendcode", events: [verification.approved, send.failed]}
    name: shop
  - {name: gift, webhook: {url: http://10.1.2.3/hooks}}
  - {name: plain}
webhooks: {allow: [10.1.0.0/16, "fd12::1"]}
`

func TestWebhooks(t *testing.T) {
	c := must(t, hooked, "SENDCODE_WEBHOOK_SECRETS= shop:"+hookOne+" , gift:"+hookThree+",shop:"+hookTwo+",default:whsec_"+strings.Repeat("A", 64))
	shop, gift, plain := c.Apps[1], c.Apps[2], c.Apps[3]
	if want := []string{"send.failed", "verification.approved"}; shop.Webhook.URL != "https://shop.example:8443/hooks?of=sendcode" || !slices.Equal(shop.Webhook.Events, want) {
		t.Errorf("%+v", shop.Webhook)
	}
	if s := shop.Webhook.Secrets; len(s) != 2 || s[0].Reveal() != hookOne || string(DecodeWebhookSecret(s[1])) != "Another secret of enough bytes" {
		t.Errorf("the shop's secrets")
	}
	if !slices.Equal(gift.Webhook.Events, WebhookEvents) || len(gift.Webhook.Secrets) != 1 || !reflect.DeepEqual(plain.Webhook, Webhook{}) {
		t.Errorf("%+v %+v", gift.Webhook, plain.Webhook)
	}
	if fmt.Sprint(c.Webhooks.Allow) != "[10.1.0.0/16 fd12::1/128]" {
		t.Errorf("%v", c.Webhooks.Allow)
	}
	for _, want := range []string{"of=***", "events: [send.failed, verification.approved]", "webhook: {}", "SENDCODE_WEBHOOK_SECRETS: set, 4 secrets", "allow: [10.1.0.0/16, 'fd12::1/128']"} {
		if !strings.Contains(c.YAML(), want) {
			t.Errorf("%q is not printed:\n%s", want, c.YAML())
		}
	}
	one, two := NewWebhookSecret(), NewWebhookSecret()
	if key := DecodeWebhookSecret(NewSecret(one)); len(key) != 32 || one == two {
		t.Errorf("a new secret of %d bytes", len(key))
	}
	if DecodeWebhookSecret(NewSecret("whsec_*")) != nil {
		t.Error("a key of nothing")
	}
}

func TestWebhookMistakes(t *testing.T) {
	of := func(webhook string) string { return "apps: [{name: shop, webhook: {" + webhook + "}}]" }
	refused(t, map[string]string{
		of("url: https://shop.example/hooks"): "apps[0].webhook.url: needs a secret: give SENDCODE_WEBHOOK_SECRETS=shop:whsec_",
		of("events: [send.sent]"):             "url is missing",
		"webhooks: {allow: [0.0.0.0/0]}":      "would let events go to every machine",
	})
	refused(t, map[string]string{
		"":                                   "there is no app shop",
		of("url: http://shop.example/hooks"): "must begin with https://",
		of("url: https://a.example, events: [send.snt]"): "there is no such event, did you mean send.sent?",
	}, "SENDCODE_WEBHOOK_SECRETS=shop:"+hookOne)
}

// Where events go, and what signs them, changes while the service runs.
func TestWebhooksAreRenewed(t *testing.T) {
	before := must(t, hooked, "SENDCODE_WEBHOOK_SECRETS=shop:"+hookOne+",gift:"+hookThree)
	next := must(t, strings.Replace(hooked, "10.1.0.0/16", "10.0.0.0/8", 1), "SENDCODE_WEBHOOK_SECRETS=shop:"+hookOne+",shop:"+hookTwo+",gift:"+hookThree)
	renewed := before.WithReloadable(next)
	if got := before.ReloadableChanges(renewed); fmt.Sprint(got) != "[apps webhooks]" {
		t.Errorf("%v", got)
	}
	if shop := renewed.Apps[1]; len(shop.Webhook.Secrets) != 2 || renewed.ReloadableChanges(next) != nil || before.RestartChanges(next) != nil {
		t.Errorf("%v %v", renewed.ReloadableChanges(next), before.RestartChanges(next))
	}
}
