package app

import (
	"crypto/sha256"

	"sendcode/internal/deliver/webhook"
	"sendcode/internal/http/api"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/run/config"
	"sendcode/internal/verify/verification"
)

func limitSet(cfg config.Config) applimits.Set {
	set := applimits.Set{}
	for name, rules := range cfg.Limits {
		for _, r := range rules {
			set[name] = append(set[name], applimits.Rule{Rule: r.QuotaRule(), Keys: r.Keys})
		}
	}
	return set
}

func webhookSettings(cfg config.Config) webhook.Settings {
	s := webhook.Settings{Endpoints: map[string]webhook.Endpoint{}, Guard: webhook.Guard{AlsoAllow: cfg.WebhookNetworks}}
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
			if k.Kind == config.SecretKeyKind {
				kind = verification.BackEnd
			}
			key := &api.Key{
				App: a.Name, ID: k.ID, Kind: kind, SHA256: k.SHA256, Expires: k.Expires,
				Known: kind == verification.BackEnd && k.Trust == config.KnownKeyTrust,
				Local: cfg.LocalPublicKey != "" && kind == verification.BackEnd, // then the only secret key is the generated one
			}
			if kind == verification.Browser {
				key.Origins = a.Origins
			}
			for _, scope := range k.Scopes {
				key.Scopes = append(key.Scopes, api.KeyScope(scope))
			}
			keys = append(keys, key)
		}
		if cfg.HasPage(a) {
			keys = append(keys, api.NewPageKey(a.Name, verification.PageOffer{Channels: cfg.Page.Channels, Purposes: a.PurposesOfPage()}))
		}
	}
	if local := cfg.LocalPublicKey; local != "" {
		keys = append(keys, &api.Key{
			App: cfg.Apps[0].Name, ID: "local_page", Kind: verification.Browser, SHA256: sha256.Sum256([]byte(local)),
			Origins: config.LocalOrigins, Local: true,
		})
	}
	return keys
}
