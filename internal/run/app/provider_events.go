package app

import (
	"slices"

	"github.com/labstack/echo/v4"

	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/http/api"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/config"
)

func (a *App) registerProviderEvents(e *echo.Echo) {
	sources, topics := map[string]feedback.Source{}, map[string]*sns.Topic{}
	// AllowPlain permits http URLs. Amazon SNS signs its messages, and the certificate of the
	// signer's issuer may be at an http URL. This is safe, because Topic verifies the certificate
	// chain.
	client := webhook.Guard{AllowPlain: true}.NewClient(nil, nil)
	for _, p := range a.cfg.Providers {
		sources[p.Name] = p.SourceWithSecret()
		if p.Auth.Scheme == feedback.SchemeSNS {
			topics[p.Name] = sns.NewTopic(p.Auth.Topic, &client, nil)
		}
		a.metrics.InitProvider(p.Name, api.ProviderOutcomes())
	}
	events := &api.EventHandlers{
		Sources: sources, Topics: topics, Subscriptions: a.core.Administration, Events: a.core.ProviderEvents, Logger: a.logger,
		Use: gates.WriteThrough{Gates: a.core.Gates, Saved: a.savedEvents}.TakeOrLocal, Count: a.metrics.ProviderEventReported,
	}
	events.Register(e)
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

// topicProviders names the mail providers whose subscription can be accepted in the console.
func topicProviders(cfg config.Config) (names []string) {
	for _, p := range cfg.Providers {
		if p.Auth.Scheme == feedback.SchemeSNS {
			names = append(names, p.Name)
		}
	}
	return names
}
