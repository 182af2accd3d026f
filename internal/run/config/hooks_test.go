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
	wantEqual(t, "app", h.App, "default")
	wantEqual(t, "purpose", h.Purposes["magiclink"], "login")
	wantEqual(t, "ttl", h.TTL, time.Hour)
	wantEqual(t, "secrets", len(h.Secrets), 2)
	wantEqual(t, "the second", string(h.Secrets[1]), "another secret, of 32 bytes or so")
}
