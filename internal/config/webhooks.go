package config

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Webhook is where an app hears of its events.
type Webhook struct {
	URL     string   // empty: nowhere
	Events  []string // those that it wants, in the order of WebhookEvents
	Secrets []Secret // of SENDCODE_WEBHOOK_SECRETS; one, or two while they are exchanged
}

// WebhookEvents are all events that an app can be told of.
var WebhookEvents = []string{"send.sent", "send.failed", "send.unknown", "verification.approved"}

// Sizes of a webhook's secret in bytes (Standard Webhooks 1.0.0, "Signature scheme"), and how many an app has.
const (
	minWebhookSecret  = 24
	maxWebhookSecret  = 64
	maxWebhookSecrets = 2
)

const webhookPrefix = "whsec_"

// NewWebhookSecret makes a secret of 32 random bytes, whsec_….
func NewWebhookSecret() string {
	key, _ := base64.RawURLEncoding.DecodeString(randomText(32))
	return webhookPrefix + base64.StdEncoding.EncodeToString(key)
}

// WebhookKey is what a secret signs with.
func WebhookKey(s Secret) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), webhookPrefix))
	if err != nil {
		return nil
	}
	return key
}

// webhook reads {url, events}.
func (s *sections) webhook(a *App, n *yaml.Node, path string) {
	given := false
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"url":    func(v *yaml.Node, path string) { given = true; s.webhookURL(a, v, path) },
		"events": func(v *yaml.Node, path string) { s.webhookEvents(a, v, path) },
	})
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 && !given {
		s.mistake(n, path, "url is missing")
	}
	if a.Webhook.URL != "" && len(a.Webhook.Events) == 0 {
		a.Webhook.Events = slices.Clone(WebhookEvents)
	}
}

// webhookURL never repeats the URL: people put tokens into them.
func (s *sections) webhookURL(a *App, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok || text == "" {
		return
	}
	p, problem := checkURL(text)
	u, err := url.Parse(text)
	switch {
	case problem != "":
		s.mistake(n, path, "%s", problem)
	case err != nil || u.Hostname() == "" || p.scheme != "https" && p.scheme != "http":
		s.mistake(n, path, "must be a URL such as https://shop.example/hooks")
	case p.userinfo != "":
		s.mistake(n, path, "must not hold a user or a password: requests are signed instead")
	default:
		a.Webhook.URL = text
		s.hookAt = append(s.hookAt, hookPlace{a, s.where(n, path)})
	}
}

func (s *sections) webhookEvents(a *App, n *yaml.Node, path string) {
	var wanted []string
	s.items(n, path, func(v *yaml.Node, path string) {
		switch text, ok := s.text(v, path); {
		case !ok:
		case !slices.Contains(WebhookEvents, text):
			s.mistake(v, path, "there is no such event%s", didYouMean(text, WebhookEvents))
		case slices.Contains(wanted, text):
			s.mistake(v, path, "is there twice")
		default:
			wanted = append(wanted, text)
		}
	})
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		s.mistake(n, path, "names no event; leave it out for all of them, or leave webhook out")
	}
	for _, event := range WebhookEvents {
		if slices.Contains(wanted, event) {
			a.Webhook.Events = append(a.Webhook.Events, event)
		}
	}
}

// hookPlace is an app, which may not have its name yet, with the place of its webhook in the file.
type hookPlace struct {
	app   *App
	where string
}

// webhooks reads {allow: [networks]}.
func (s *sections) webhooks(n *yaml.Node, path string) {
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"allow": func(v *yaml.Node, path string) {
			s.networks(v, path, "would let events go to every machine that this one can reach; name networks", func(p netip.Prefix) {
				s.config.WebhooksAllow = append(s.config.WebhooksAllow, p)
			})
		},
	})
}

// completeWebhooks looks at webhooks and their secrets together.
func (s *sections) completeWebhooks(from map[string]setting) {
	given := from[keyWebhookSecrets]
	wrong := given.value != "" && checkWebhookSecrets(given.value) != ""
	if given.value != "" && !wrong {
		s.shareSecrets(given)
	}
	for _, h := range s.hookAt {
		a, _ := s.config.App(h.app.Name)
		if len(a.Webhook.Secrets) == 0 && !wrong {
			s.errs.add(h.where, "needs a secret: give SENDCODE_WEBHOOK_SECRETS=%s:whsec_…; make one with `sendcode key --kind webhook`", plain(h.app.Name))
		}
		if strings.HasPrefix(h.app.Webhook.URL, "http://") && len(s.config.WebhooksAllow) == 0 {
			s.errs.add(h.where, "must begin with https://; http is for networks that webhooks.allow names")
		}
	}
}

// shareSecrets gives each app its secrets. Their values are never repeated.
func (s *sections) shareSecrets(from setting) {
	all := splitSecrets(from.value)
	for _, app := range sortedKeys(all) {
		i := slices.IndexFunc(s.config.Apps, func(a App) bool { return a.Name == app })
		if i < 0 {
			s.errs.add(from.where, "there is no app %s", plain(app))
			continue
		}
		for _, secret := range all[app] {
			s.config.Apps[i].Webhook.Secrets = append(s.config.Apps[i].Webhook.Secrets, NewSecret(secret))
		}
	}
}

// splitSecrets takes "app:whsec_…,app:whsec_…" apart; what has no colon is under "".
func splitSecrets(value string) map[string][]string {
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

// checkWebhookSecrets repeats nothing but names of apps.
func checkWebhookSecrets(value string) string {
	seen, all := map[string]bool{}, splitSecrets(value)
	for _, app := range sortedKeys(all) {
		secrets := all[app]
		if !namePattern.MatchString(app) {
			return "must be app:whsec_… entries, separated by commas"
		}
		if len(secrets) > maxWebhookSecrets {
			return "holds more than two secrets of the app " + app + ": the one that holds, and the next one"
		}
		for _, secret := range secrets {
			encoded, found := strings.CutPrefix(secret, webhookPrefix)
			key, err := base64.StdEncoding.DecodeString(encoded)
			switch {
			case !found || err != nil || len(key) < minWebhookSecret || len(key) > maxWebhookSecret:
				return "a secret is whsec_ and the base64 of 24 to 64 random bytes; make one with `sendcode key --kind webhook`"
			case seen[string(key)]:
				return "holds a secret twice; each receiver needs one of its own"
			}
			seen[string(key)] = true
		}
	}
	return ""
}

// webhookNode shows where events go; secrets are counted elsewhere.
func webhookNode(w Webhook) *yaml.Node {
	if w.URL == "" {
		return flow(mapping())
	}
	events := sequence()
	for _, e := range w.Events {
		events.Content = append(events.Content, text(e))
	}
	return flow(mapping("url", text(maskURL(w.URL)), "events", events))
}
