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
	shop, _ := c.App("shop")
	gift, _ := c.App("gift")
	plain, _ := c.App("plain")
	if want := []string{"send.failed", "verification.approved"}; shop.Webhook.URL != "https://shop.example:8443/hooks?of=sendcode" || !slices.Equal(shop.Webhook.Events, want) {
		t.Errorf("%+v", shop.Webhook)
	}
	if s := shop.Webhook.Secrets; len(s) != 2 || s[0].Reveal() != hookOne || string(WebhookKey(s[1])) != "Another secret of enough bytes" {
		t.Errorf("the shop's secrets")
	}
	if !slices.Equal(gift.Webhook.Events, WebhookEvents) || len(gift.Webhook.Secrets) != 1 || !reflect.DeepEqual(plain.Webhook, Webhook{}) {
		t.Errorf("%+v %+v", gift.Webhook, plain.Webhook)
	}
	if fmt.Sprint(c.Webhooks.Allow) != "[10.1.0.0/16 fd12::1/128]" {
		t.Errorf("%v", c.Webhooks.Allow)
	}
	printed := prints(c)
	for _, secret := range []string{hookOne, hookTwo, hookThree} {
		if in(printed, secret) || in(printed, secret[6:]) {
			t.Error("a secret is printed")
		}
	}
	for _, want := range []string{"of=***", "events: [send.failed, verification.approved]", "webhook: {}", "SENDCODE_WEBHOOK_SECRETS: set, 4 secrets", "allow: [10.1.0.0/16, 'fd12::1/128']"} {
		if !strings.Contains(c.YAML(), want) {
			t.Errorf("%q is not printed:\n%s", want, c.YAML())
		}
	}
	one, two := NewWebhookSecret(), NewWebhookSecret()
	if key := WebhookKey(NewSecret(one)); len(key) != 32 || one == two {
		t.Errorf("a new secret of %d bytes", len(key))
	}
	if WebhookKey(NewSecret("whsec_*")) != nil {
		t.Error("a key of nothing")
	}
}

func TestWebhookMistakes(t *testing.T) {
	const good = "{name: shop, webhook: {url: https://shop.example/hooks}}"
	for _, c := range []struct{ app, more, secrets, want string }{
		{good, "", "", "apps[0].webhook.url: needs a secret: give SENDCODE_WEBHOOK_SECRETS=shop:whsec_"},
		{good, "", "shop:" + hookTwo + ",gift:" + hookOne, "there is no app gift"},
		{good, "", hookOne, "must be app:whsec_… entries"},
		{good, "", "shop:" + hookOne + ",", "must be app:whsec_… entries"},
		{good, "", "shop:" + hookOne + ",shop:" + hookTwo + ",shop:" + hookThree, "more than two secrets of the app shop"},
		{good, "", "shop:" + hookOne + ",shop:" + hookOne, "holds a secret twice"},
		{good, "", "shop:" + hookOne[6:], "a secret is whsec_"},
		{good, "", "shop:whsec_AAAA", "a secret is whsec_"},
		{good, "", "shop:whsec_" + strings.Repeat("A", 88), "a secret is whsec_"},
		{"{name: shop, webhook: {url: http://shop.example/hooks}}", "", "shop:" + hookOne, "must begin with https://"},
		{"{name: shop, webhook: {url: https://user:pw@shop.example/}}", "", "shop:" + hookOne, "must not hold a user or a password"},
		{"{name: shop, webhook: {url: \"https://shop.example/?token=***\"}}", "", "shop:" + hookOne, "still has ***"},
		{"{name: shop, webhook: {url: ftp://shop.example/}}", "", "shop:" + hookOne, "must be a URL such as"},
		{"{name: shop, webhook: {events: [send.sent]}}", "", "shop:" + hookOne, "url is missing"},
		{"{name: shop, webhook: {url: https://a.example, events: [send.snt]}}", "", "shop:" + hookOne, "there is no such event, did you mean send.sent?"},
		{"{name: shop, webhook: {url: https://a.example, events: []}}", "", "shop:" + hookOne, "names no event"},
		{good, "webhooks: {allow: [0.0.0.0/0]}", "shop:" + hookOne, "would let events go to every machine"},
	} {
		var environ []string
		if c.secrets != "" {
			environ = []string{"SENDCODE_WEBHOOK_SECRETS=" + c.secrets}
		}
		_, err := loadYAML("apps: ["+c.app+"]\n"+c.more, environ...)
		lines := strings.Join(mistakes(err), "\n")
		if len(mistakes(err)) != 1 || !strings.Contains(lines, c.want) || strings.Contains(lines, hookOne) || strings.Contains(lines, "user:pw") {
			t.Errorf("%s, %s, %s: %q, want %q", c.app, c.more, c.secrets, lines, c.want)
		}
	}
}

// Where events go, and what signs them, changes while the service runs.
func TestWebhooksAreRenewed(t *testing.T) {
	before := must(t, hooked, "SENDCODE_WEBHOOK_SECRETS=shop:"+hookOne+",gift:"+hookThree)
	next := must(t, strings.Replace(hooked, "10.1.0.0/16", "10.0.0.0/8", 1), "SENDCODE_WEBHOOK_SECRETS=shop:"+hookOne+",shop:"+hookTwo+",gift:"+hookThree)
	renewed := before.Renewed(next)
	if got := before.Differs(renewed); fmt.Sprint(got) != "[apps webhooks]" {
		t.Errorf("%v", got)
	}
	if shop, _ := renewed.App("shop"); len(shop.Webhook.Secrets) != 2 || renewed.Differs(next) != nil || before.Fixed(next) != nil {
		t.Errorf("%v %v", renewed.Differs(next), before.Fixed(next))
	}
}
