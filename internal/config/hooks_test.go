package config

import (
	"testing"
	"time"
)

const twoHookSecrets = "v1,whsec_YSBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIGEgaG9vayEh|v1,whsec_YW5vdGhlciBzZWNyZXQsIG9mIDMyIGJ5dGVzIG9yIHNv"

func TestHooks(t *testing.T) {
	file := "purposes: {login: {}}\nhooks:\n  - {name: auth, server: supabase-email, secret_env: SUPABASE, purposes: {magiclink: login}, ttl: 1h}\n" +
		"  - {name: texts, app: default, server: supabase-sms, secret_env: SUPABASE}\n"
	c := must(t, file, "SUPABASE="+twoHookSecrets)
	h := c.Hooks[0].Hook()
	is(t, "app", h.App, "default")
	is(t, "purpose", h.Purposes["magiclink"], "login")
	is(t, "ttl", h.TTL, time.Hour)
	is(t, "secrets", len(h.Secrets), 2)
	is(t, "the second", string(h.Secrets[1]), "another secret, of 32 bytes or so")
	mistakes := map[string]string{}
	for hook, want := range map[string]string{
		"name: auth, server: supabase-email":                                                     "secret_env is missing",
		"name: auth, server: kratos, secret_env: SUPABASE":                                       "supabase-email",
		"name: auth, server: supabase-email, secret_env: SHORT":                                  "v1,whsec_",
		"name: auth, server: supabase-email, secret_env: PLAIN":                                  "v1,whsec_",
		"name: auth, server: supabase-email, secret_env: SUPABASE, app: none":                    "there is no app none",
		"name: auth, server: supabase-email, secret_env: SUPABASE, purposes: {signup: none}":     "there is no purpose none",
		"name: auth, server: supabase-email, secret_env: SUPABASE, purposes: {sign_up: default}": "is none of signup",
		"name: auth, server: supabase-email, secret_env: SUPABASE, purposes: {sms: default}":     "sms is not of supabase-email",
		"name: auth, server: supabase-sms, secret_env: SUPABASE, purposes: {signup: default}":    "signup is not of supabase-sms",
		"name: auth, server: supabase-email, secret_env: SUPABASE, ttl: 25h":                     "hooks[0].ttl",
	} {
		mistakes["hooks: [{"+hook+"}]"] = want
	}
	refused(t, mistakes, "SUPABASE="+twoHookSecrets, "SHORT=v1,whsec_YWJj",
		"PLAIN=whsec_YSBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIGEgaG9vayEh")
}
