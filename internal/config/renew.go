package config

import (
	"maps"
	"reflect"
	"slices"
)

// Renewed is c with all of next that can change while the service runs: the policies, the purposes and the apps with their
// titles and keys. A generated API key stays where next has no key that would take its place.
func (c Config) Renewed(next Config) Config {
	c.Policies, c.Purposes, c.Apps, c.Warnings = next.Policies, next.Purposes, next.Apps, next.Warnings
	c.Checks, c.Breaker, c.Spellings = next.Checks, next.Breaker, next.Spellings
	c.Pauses, c.Suppressions, c.Retention = next.Pauses, next.Suppressions, next.Retention
	c.RequestsPerMinute = next.RequestsPerMinute
	c.WebhooksAllow, c.WebhookSecrets = next.WebhooksAllow, next.WebhookSecrets
	c.TestRecipients, c.Blocks, c.DisposableFile, c.Disposable = next.TestRecipients, next.Blocks, next.DisposableFile, next.Disposable
	if next.APIKey.IsSet() {
		c.APIKey = next.APIKey // its hash is among the apps' keys already
		return c
	}
	if app, _ := next.App(DefaultApp); app.hasSecretKey() || !c.APIKey.IsSet() {
		return c
	}
	c.Apps = slices.Clone(c.Apps)
	c.addAPIKey()
	return c
}

// Differs names the parts that can change while the service runs and are others in next.
func (c Config) Differs(next Config) []string {
	var parts []string
	add := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			parts = append(parts, name)
		}
	}
	add("policies", c.Policies, next.Policies)
	add("purposes", c.Purposes, next.Purposes)
	add("apps", c.Apps, next.Apps)
	add("webhooks", c.WebhooksAllow, next.WebhooksAllow)
	add("checks", c.Checks, next.Checks)
	add("breaker", c.Breaker, next.Breaker)
	add("spellings", c.Spellings, next.Spellings)
	add("test_recipients", c.TestRecipients, next.TestRecipients)
	add("block", c.Blocks, next.Blocks)
	add("paused", c.Pauses, next.Pauses)
	add("suppressions", c.Suppressions, next.Suppressions)
	add("retention", c.Retention, next.Retention)
	add("requests_per_minute", c.RequestsPerMinute, next.RequestsPerMinute)
	add("disposable_domains", c.Disposable, next.Disposable)
	return parts
}

// Fixed names the settings that are others in next and that only a restart brings into force. Both must be as Load gave
// them: a secret that was filled in later would look like a change.
func (c Config) Fixed(next Config) []string {
	var names []string
	for _, v := range variables {
		if v.key != keyConfig && !v.list && v.key != keyAPIKey && v.key != keyWebhookSecrets && c.raw(v.key) != next.raw(v.key) {
			names = append(names, envName(v.key))
		}
	}
	add := func(name string, same bool) {
		if !same {
			names = append(names, name)
		}
	}
	add("templates", c.Templates == next.Templates)
	add("trusted_proxies", slices.Equal(c.TrustedProxies, next.TrustedProxies))
	add("page", reflect.DeepEqual(c.Page, next.Page))
	c.Admin.TokenRole = next.Admin.TokenRole // compared above
	add("admin", reflect.DeepEqual(c.Admin, next.Admin))
	add("provider_events", reflect.DeepEqual(c.Providers, next.Providers))
	add("sms", reflect.DeepEqual(c.SMS, next.SMS))
	add("folding", maps.Equal(c.Folding, next.Folding))
	return names
}

// raw is the value of a setting, passwords and all: only to be compared.
func (c Config) raw(key string) string {
	switch key {
	case keyDatabaseURL:
		return c.DatabaseURL
	case keyRedisURL:
		return c.RedisURL
	case keySMTPURL:
		return c.SMTPURL
	case keySecretKeys, keyIndexKey, keyAdminPassword, keyAdminPasswordHash, keyAdminToken, keyMetricsToken, keyOIDCSecret:
		return c.secret(key).Reveal()
	}
	return c.shown(key)
}
