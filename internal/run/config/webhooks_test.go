package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"sendcode/internal/base/document"

	"sendcode/internal/store"
)

const (
	hookOne   = "whsec_Q2hlZXIgdXAsIGl0IGlzIGEgdGVzdCBzZWNyZXQh"
	hookTwo   = "whsec_QW5vdGhlciBzZWNyZXQgb2YgZW5vdWdoIGJ5dGVz"
	hookThree = "whsec_VGhlIHRoaXJkIG9uZSBvZiBlbm91Z2ggYnl0ZXMu"
)

const hooked = `
apps:
  - {name: shop, webhook: {url: "https://shop.example:8443/hooks?of=sendcode", events: [verification.approved, send.failed]}}
  - {name: gift, webhook: {url: http://10.1.2.3/hooks}}
  - {name: plain}
webhook_networks: [10.1.0.0/16, "fd12::1"]
`

func TestWebhooks(t *testing.T) {
	secrets := "SENDCODE_WEBHOOK_SECRETS= shop:" + hookOne + " , gift:" + hookThree + ",shop:" + hookTwo
	c := must(t, hooked, secrets+",default:whsec_"+strings.Repeat("A", 64))
	shop, gift := c.Apps[1].Webhook, c.Apps[2].Webhook
	wantEqual(t, "secrets", []string{shop.Secrets[0].Reveal(), shop.Secrets[1].Reveal(), gift.Secrets[0].Reveal()},
		[]string{hookOne, hookTwo, hookThree})
	wantEqual(t, "key", string(DecodeWebhookSecret(shop.Secrets[1])), "Another secret of enough bytes")
	wantEqual(t, "events", gift.Events, webhookEvents)
	wantEqual(t, "no webhook", c.Apps[3].Webhook, webhookSettings{})
	wantEqual(t, "a new secret", c.ReloadableChanges(must(t, hooked, secrets+",gift:whsec_"+strings.Repeat("A", 64))), []string{"apps"})
	for _, want := range []string{
		"of=***", "events: [send.failed, verification.approved]", "webhook: {}",
		"SENDCODE_WEBHOOK_SECRETS: set, 4 secrets",
	} {
		if !strings.Contains(c.YAML(), want) {
			t.Errorf("%q is not printed:\n%s", want, c.YAML())
		}
	}
	if one, two := NewWebhookSecret(), NewWebhookSecret(); len(DecodeWebhookSecret(document.NewSecret(one))) != 32 || one == two {
		t.Errorf("new secrets %s and %s", one, two)
	}
	if DecodeWebhookSecret(document.NewSecret("whsec_*")) != nil {
		t.Error("a key of nothing")
	}
}

// The settings and the documents name the same events as store.EventTypes, in the same order.
func TestEventsAreThoseOfTheTable(t *testing.T) {
	var names []string
	for _, e := range store.EventTypes {
		names = append(names, e.Name)
	}
	wantEqual(t, "settings", webhookEvents, names)
	tag, _ := reflect.TypeFor[webhookSettings]().FieldByName("Events")
	wantEqual(t, "accepted", strings.Fields(tag.Tag.Get("oneof")), names)
	api, err := os.ReadFile("../../../docs/openapi.yaml")
	if err != nil || !strings.Contains(string(api), "EventType: {type: string, enum: ["+strings.Join(names, ", ")+"]}") {
		t.Errorf("openapi.yaml has other events: %v", err)
	}
	page, err := os.ReadFile("../../../docs/webhooks.md")
	at := -1
	for _, name := range names {
		next := strings.Index(string(page), "`"+name+"`")
		if next <= at {
			t.Errorf("webhooks.md lacks %s, or has it elsewhere: %v", name, err)
		}
		at = next
	}
}
