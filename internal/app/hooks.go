package app

import (
	"sendcode/internal/config"
	"sendcode/internal/webhook"
)

// openHooks creates the worker that delivers apps' events. Without a webhook it only deletes old ones.
func (a *App) openHooks() {
	a.hooks = webhook.New(receivers(a.cfg), webhook.Parts{Log: a.log, Logger: a.logger, Observer: a.metrics})
}

func receivers(cfg config.Config) webhook.Settings {
	s := webhook.Settings{Receivers: map[string]webhook.Receiver{}, Guard: webhook.Guard{Allow: cfg.Webhooks.Allow}}
	for _, a := range cfg.Apps {
		if a.Webhook.URL == "" {
			continue
		}
		to := webhook.Receiver{URL: a.Webhook.URL}
		for _, secret := range a.Webhook.Secrets {
			to.Secrets = append(to.Secrets, config.WebhookKey(secret))
		}
		s.Receivers[a.Name] = to
	}
	return s
}

// subscriptions returns the types of events that each app gets. For an app without an address no event is written.
func subscriptions(cfg config.Config) map[string][]string {
	out := map[string][]string{}
	for _, a := range cfg.Apps {
		if a.Webhook.URL != "" {
			out[a.Name] = a.Webhook.Events
		}
	}
	return out
}
