package console

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/openid"
	"sendcode/internal/openid/openidtest"
	"sendcode/internal/store"
)

// besideProvider is a rig whose people may also log in by a provider, which is real and on loopback.
func besideProvider(t *testing.T) (*rig, *openidtest.Provider) {
	t.Helper()
	server := openidtest.New(t, consoletest.Address+auth.ProviderCallback)
	r := newRig(t, func(c *Config) { c.Auth.Provider = providerAt(server, c.Now) })
	server.Do(func() { server.Now = r.clock.Now })
	return r, server
}

func providerAt(server *openidtest.Provider, now func() time.Time) *auth.Provider {
	return &auth.Provider{
		Asked: openid.New(consoletest.Identities(server), now), Title: "Example ID", About: "one",
		Roles: map[string]auth.Role{"support": auth.Reader, "on-call": auth.Operator, "console-owners": auth.Owner},
	}
}

// account adds an account, or makes the one of its name like it.
func (r *rig) account(a store.Account) {
	r.Helper()
	act := store.AuditEntry{ID: r.id(), Who: "test", What: "account.add", Outcome: store.AuditDone}
	err := r.log.AddAccount(r.Context(), a, act)
	if errors.Is(err, store.ErrNameTaken) {
		all := store.AccountChange{Role: &a.Role, Password: &a.Password, Identity: &a.Identity, DisabledAt: &a.DisabledAt}
		err = r.log.ChangeAccount(r.Context(), a.Name, all, act)
	}
	r.must(err)
}

// phone is the authenticator app of the account of the settings.
func (r *rig) phone(secret string) consoletest.Device {
	return consoletest.Device{T: r.T, Clock: r.clock, Secret: secret}
}
