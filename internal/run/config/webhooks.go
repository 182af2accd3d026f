package config

import (
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sendcode/internal/base/document"
	"sendcode/internal/deliver/standardwebhooks"
)

// webhookSettings say which events of an app are posted, and to which URL.
type webhookSettings struct {
	// An `https` URL. With `http` it must lead into `webhook_networks`.
	URL string `yaml:"url,omitempty" check:"webhook_url"`
	// Which events the webhook gets, by default all: `send.sent`, `send.failed`, `send.unknown`,
	// `send.bounced`, `send.delivered`, `send.undelivered`, `verification.approved`,
	// `verification.expired`, `verification.canceled`, `verification.locked`,
	// `verification.reported`, `conversion.low`, `conversion.recovered`.
	Events  []string `yaml:"events,omitempty" oneof:"send.sent send.failed send.unknown send.bounced send.delivered send.undelivered verification.approved verification.expired verification.canceled verification.locked verification.reported conversion.low conversion.recovered" unique:"yes"`
	Secrets []Secret `yaml:"-"` // of SENDCODE_WEBHOOK_SECRETS; one, or two while a new one replaces the old one
}

// webhookEvents are all events that a webhook can report (store.EventTypes).
var webhookEvents = strings.Fields(`send.sent send.failed send.unknown send.bounced send.delivered send.undelivered
	verification.approved verification.expired verification.canceled verification.locked verification.reported
	conversion.low conversion.recovered`)

// These are the shortest and the longest length of a webhook's secret in bytes (Standard Webhooks
// 1.0.0, "Signature scheme"), and the highest number of an app's secrets.
const (
	minWebhookSecretLength = 24
	maxWebhookSecretLength = 64
	maxWebhookSecrets      = 2
)

// NewWebhookSecret returns a new secret of 32 random bytes, whsec_….
func NewWebhookSecret() string {
	key, _ := base64.RawURLEncoding.DecodeString(randomText(32))
	return standardwebhooks.SecretPrefix + base64.StdEncoding.EncodeToString(key)
}

// DecodeWebhookSecret returns the key that a secret of the form "whsec_…" encodes. If the secret
// encodes no key, it returns nil.
func DecodeWebhookSecret(s Secret) []byte { return standardwebhooks.DecodeSecret(s.Reveal()) }

// Check implements document.checker. If any other setting of a webhook is given, the URL must be
// given, too. Check sorts the events. If no events are given, it sets all events.
func (w *webhookSettings) Check(p *document.Mapping) {
	if p.Given["url"] == nil && len(p.Given) > 0 {
		p.AddMistake("", "url is missing")
	}
	if n := p.Given["events"]; n != nil && len(n.Content) == 0 {
		p.AddMistake("events", "is an empty list; leave it out to get all events, or leave webhook out")
	}
	order := func(a, b string) int { return slices.Index(webhookEvents, a) - slices.Index(webhookEvents, b) }
	slices.SortFunc(w.Events, order)
	if w.URL != "" && len(w.Events) == 0 {
		w.Events = slices.Clone(webhookEvents)
	}
}

// checkWebhookURL returns the problem with the URL of a webhook, or "". It never repeats the URL,
// since people put tokens into such URLs.
func checkWebhookURL(text string) string {
	p, problem := parseURL(text)
	u, err := url.Parse(text)
	switch {
	case problem != "":
		return problem
	case err != nil || u.Hostname() == "" || p.scheme != "https" && p.scheme != "http":
		return "must be a URL such as https://shop.example/hooks"
	case p.userinfo != "":
		return "must not hold a user or a password: requests are signed instead"
	}
	return ""
}

// webhookSecretsByApp returns the secrets in "app:whsec_…,app:whsec_…" by app. An entry without a
// colon has the app "". It returns nil for an empty text.
func webhookSecretsByApp(value string) map[string][]string {
	if value == "" {
		return nil
	}
	all := map[string][]string{}
	for entry := range strings.SplitSeq(value, ",") {
		app, secret, found := strings.Cut(strings.TrimSpace(entry), ":")
		if !found {
			app, secret = "", entry
		}
		all[app] = append(all[app], secret)
	}
	return all
}

// checkWebhookSecrets returns the problem with "app:whsec_…,app:whsec_…", or "". It repeats only
// names of apps, and no other part of the value.
func checkWebhookSecrets(value string) string {
	seen, all := map[string]bool{}, webhookSecretsByApp(value)
	for _, app := range slices.Sorted(maps.Keys(all)) {
		secrets := all[app]
		if checkName(app) != "" {
			return "must be app:whsec_… entries, separated by commas"
		}
		if len(secrets) > maxWebhookSecrets {
			return "holds more than two secrets of the app " + app + ": give only the present one and the next one"
		}
		for _, secret := range secrets {
			encoded, found := strings.CutPrefix(secret, standardwebhooks.SecretPrefix)
			key, err := base64.StdEncoding.DecodeString(encoded)
			switch {
			case !found || err != nil || len(key) < minWebhookSecretLength || len(key) > maxWebhookSecretLength:
				return "a secret is whsec_ and the base64 of 24 to 64 random bytes; make one with `sendcode key --kind webhook`"
			case seen[string(key)]:
				return "has the same secret twice; each receiver needs its own"
			}
			seen[string(key)] = true
		}
	}
	return ""
}
