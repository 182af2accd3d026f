package app

import (
	"cmp"
	"crypto/sha256"
	"net/mail"
	"slices"
	"time"

	"sendcode/internal/api"
	"sendcode/internal/brand"
	"sendcode/internal/config"
	"sendcode/internal/limits"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/verification"
	"sendcode/internal/webhook"
	"sendcode/quota"
)

// limitSet returns the limits of a configuration.
func limitSet(cfg config.Config) limits.Set {
	set := limits.Set{}
	for name, rules := range cfg.Limits {
		for _, r := range rules {
			set[name] = append(set[name], limits.Rule{Rule: r.QuotaRule(), Keys: r.Keys})
		}
	}
	return set
}

// Bounds that no setting changes; docs/decisions/0012-settings.md says why.
const (
	failedChecksOfApp = 10_000              // an hour; they alarm
	suppressFor       = 30 * 24 * time.Hour // after a bounce for good, a complaint or an opt-out
)

// policySet returns the policies, and what else can change while the service runs, as package policy has them.
func policySet(cfg config.Config) policy.Set {
	set := policy.Set{
		Purposes: map[string]policy.Purpose{}, Apps: map[string]policy.App{}, Subscriptions: map[string][]string{},
		Blocks: policyBlocks(cfg), TestRecipients: map[recipient.Hash]policy.TestRecipient{},
		Checks: policy.Checks{
			Network:     quota.Rule{Name: "network", Scope: quota.IP, Limit: cfg.FailedChecksPerHour, Window: time.Hour},
			WideNetwork: quota.Rule{Name: "wide_network", Scope: quota.Network, Limit: 3 * cfg.FailedChecksPerHour, Window: time.Hour},
			App:         quota.Rule{Name: "app", Scope: quota.App, Limit: failedChecksOfApp, Window: time.Hour},
		},
		SuppressFor: suppressFor, Retention: cfg.Retention,
		Numbers: servedNumbers(cfg),
		Reports: map[recipient.Channel]bool{
			recipient.Email: len(cfg.Providers) > 0,
			recipient.SMS:   cfg.SMS.PublicURL != "" || slices.ContainsFunc(cfg.SMS.Carriers, config.SMSCarrier.Polled),
		},
		Breaker:   quota.Rule{Name: policy.BreakerName, Scope: policy.Everything, Limit: cfg.Breaker.Limit, Window: cfg.Breaker.Window},
		Spellings: quota.Rule{Name: policy.SpellingsName, Scope: policy.Spellings, Limit: 20, Window: 24 * time.Hour},

		BreakerReserve: cfg.Breaker.Reserve,
	}
	for name, p := range cfg.Purposes {
		set.Purposes[name] = policy.Purpose{
			Name: name, Policy: cfg.Policy(p.Policy), Reserve: cfg.Reserve(p.Policy), BuiltIn: cfg.BuiltInPolicy(p.Policy),
			Shares: cfg.PurposesWithPolicy(p.Policy),
			TTL:    p.TTL, CodeLength: p.Code.Length, Alphabet: p.Code.Alphabet, Notify: p.Notify,
		}
	}
	for _, a := range cfg.Apps {
		set.Apps[a.Name] = policy.App{Title: appTitle(cfg, a), Sender: a.MailFrom, Brand: appBrand(a), Site: a.SMSOrigin, Hash: a.SMSHash,
			ReachedByStrangers: cfg.ReachedByStrangers(a)}
		if a.Webhook.URL != "" { // without an address no event is written
			set.Subscriptions[a.Name] = a.Webhook.Events
		}
	}
	for _, p := range cfg.Pauses {
		set.Pauses = append(set.Pauses, policy.Pause{Channel: p.Channel, Purpose: p.Purpose, Reason: p.Reason})
	}
	for _, t := range cfg.TestRecipients {
		set.TestRecipients[t.To.Hash(cfg.IndexKeyBytes())] = policy.TestRecipient{Code: t.Code, Expires: t.Expires}
	}
	return set
}

// providerHeaders returns the headers by which mail providers identify our mails.
func providerHeaders(cfg config.Config) (headers []string) {
	for _, p := range cfg.Providers {
		if p.Header != "" && !slices.Contains(headers, p.Header) {
			headers = append(headers, p.Header)
		}
	}
	return headers
}

func policyBlocks(cfg config.Config) policy.Blocks {
	b := policy.Blocks{Recipients: map[recipient.Hash]bool{}, Domains: map[string]bool{}, Disposable: cfg.Disposable}
	for _, x := range cfg.Blocks {
		switch {
		case x.Domain != "":
			b.Domains[x.Domain] = true
		case x.Prefix != "":
			b.Prefixes = append(b.Prefixes, x.Prefix)
		default:
			b.Recipients[x.To.Hash(cfg.IndexKeyBytes())] = true
		}
	}
	return b
}

func appBrand(a config.App) brand.Brand { return brand.New(a.Brand.Logo, a.Brand.Accent, a.Brand.Home) }

// appTitle returns an app's name in messages. The app default has the sender's name, since people do not know an app "default".
func appTitle(cfg config.Config, a config.App) string {
	if a.Name == config.DefaultApp {
		return cmp.Or(a.Title, appSender(cfg, a).Name, a.Name)
	}
	return cmp.Or(a.Title, a.Name)
}

// appSender returns the address and name that an app's mails come from.
func appSender(cfg config.Config, a config.App) mail.Address {
	from, err := mail.ParseAddress(cmp.Or(a.MailFrom, cfg.MailFrom))
	if err != nil {
		return mail.Address{}
	}
	return *from
}

// webhookSettings returns the URLs and keys of the apps' webhooks.
func webhookSettings(cfg config.Config) webhook.Settings {
	s := webhook.Settings{Endpoints: map[string]webhook.Endpoint{}, Guard: webhook.Guard{Allow: cfg.WebhookNetworks}}
	for _, a := range cfg.Apps {
		if a.Webhook.URL == "" {
			continue
		}
		to := webhook.Endpoint{URL: a.Webhook.URL}
		for _, secret := range a.Webhook.Secrets {
			to.Secrets = append(to.Secrets, config.DecodeWebhookSecret(secret))
		}
		s.Endpoints[a.Name] = to
	}
	return s
}

func apiKeys(cfg config.Config) api.Keys {
	var keys api.Keys
	for _, a := range cfg.Apps {
		for _, k := range a.Keys {
			kind := verification.Browser
			if k.Kind == config.SecretKey {
				kind = verification.Secret
			}
			key := &api.Key{App: a.Name, ID: k.ID, Kind: kind, SHA256: k.SHA256, Expires: k.Expires}
			if kind == verification.Browser {
				key.Origins = a.Origins
			}
			for _, scope := range k.Scopes {
				key.Scopes = append(key.Scopes, api.Scope(scope))
			}
			keys = append(keys, key)
		}
	}
	if local := cfg.LocalPublicKey; local != "" {
		keys = append(keys, &api.Key{
			App: cfg.Apps[0].Name, ID: "local_page", Kind: verification.Browser, SHA256: sha256.Sum256([]byte(local)), Origins: config.LocalOrigins,
		})
	}
	return keys
}
