package app

import (
	"cmp"
	"fmt"
	"net/mail"
	"slices"

	"sendcode/internal/api"
	"sendcode/internal/brand"
	"sendcode/internal/code"
	"sendcode/internal/config"
	"sendcode/internal/limits"
	"sendcode/internal/message"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// limitSet returns the limits of a configuration.
func limitSet(cfg config.Config) limits.Set {
	set := limits.Set{}
	for name, rules := range cfg.Limits {
		for _, r := range rules {
			set[name] = append(set[name], limits.Rule{Rule: r.Rule(), Keys: r.Keys})
		}
	}
	return set
}

// purposes returns each purpose with its policy.
func purposes(cfg config.Config) map[string]policy.Purpose {
	out := map[string]policy.Purpose{}
	for name, p := range cfg.Purposes {
		out[name] = policy.Purpose{
			Name: name, Policy: cfg.Policy(p.Policy), Shares: cfg.PurposesOf(p.Policy),
			TTL: p.TTL, CodeLength: p.Code.Length, Alphabet: code.Alphabet(p.Code.Alphabet), Notify: message.Notify(p.Notify),
		}
	}
	return out
}

// policies returns the settings that can change while the service runs.
func policies(cfg config.Config) policy.Set {
	return policy.Set{
		Purposes: purposes(cfg), Apps: apps(cfg), Blocks: blocks(cfg), TestRecipients: testRecipients(cfg), Subscriptions: subscriptions(cfg),
		Checks: policy.Checks{
			Network: rule("network", quota.IP, cfg.Checks.Network), WideNetwork: rule("wide_network", quota.Network, cfg.Checks.WideNetwork),
			App: rule("app", quota.App, cfg.Checks.App),
		},
		Pauses: pauses(cfg), SuppressFor: cfg.Suppressions.For, Retention: cfg.Retention,
		Numbers:   servedNumbers(cfg),
		Breaker:   rule(policy.BreakerName, policy.Everything, cfg.Breaker),
		Spellings: rule(policy.SpellingsName, policy.Spellings, cfg.Spellings),
	}
}

func rule(name string, scope quota.Scope, b config.Bound) quota.Rule {
	return quota.Rule{Name: name, Scope: scope, Limit: b.Limit, Window: b.Window}
}

func pauses(cfg config.Config) (all []policy.Pause) {
	for _, p := range cfg.Pauses {
		all = append(all, policy.Pause{Channel: p.Channel, Purpose: p.Purpose, Reason: p.Reason})
	}
	return all
}

// mailHeaders returns the headers by which mail providers identify our mails.
func mailHeaders(cfg config.Config) (headers []string) {
	for _, p := range cfg.Providers {
		if p.Header != "" && !slices.Contains(headers, p.Header) {
			headers = append(headers, p.Header)
		}
	}
	return headers
}

func blocks(cfg config.Config) policy.Blocks {
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

func testRecipients(cfg config.Config) map[recipient.Hash]policy.TestRecipient {
	out := map[recipient.Hash]policy.TestRecipient{}
	for _, t := range cfg.TestRecipients {
		out[t.To.Hash(cfg.IndexKeyBytes())] = policy.TestRecipient{Code: t.Code, Expires: t.Expires}
	}
	return out
}

// apps returns how each app appears in messages and pages.
func apps(cfg config.Config) map[string]policy.App {
	out := map[string]policy.App{}
	called := titles(cfg)
	for _, a := range cfg.Apps {
		out[a.Name] = policy.App{Title: called[a.Name], Sender: a.MailFrom, Brand: brandOf(a)}
	}
	return out
}

func brandOf(a config.App) brand.Brand { return brand.New(a.Brand.Logo, a.Brand.Accent, a.Brand.Home) }

// titles returns the name of each app in messages. The app default has the sender's name, since people do not know an app
// "default".
func titles(cfg config.Config) map[string]string {
	out := map[string]string{}
	for _, a := range cfg.Apps {
		out[a.Name] = a.Title
		if a.Title == "" && a.Name == config.DefaultApp {
			out[a.Name] = sender(cmp.Or(a.MailFrom, cfg.MailFrom)).Name
		}
	}
	return out
}

// checkTitles returns an error if mail programs would turn an app's name into a link, which would make every send fail.
func checkTitles(cfg config.Config) error {
	for name, title := range titles(cfg) {
		if err := message.CheckName(cmp.Or(title, name)); err != nil {
			return fmt.Errorf("the app %q can't be called that in messages; give it a title: %w", name, err)
		}
	}
	return nil
}

// sender is whom mails come from.
func sender(from string) mail.Address {
	a, err := mail.ParseAddress(from)
	if err != nil {
		return mail.Address{Address: from}
	}
	return *a
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
	return keys
}
