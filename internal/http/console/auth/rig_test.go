package auth

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/openid"
	"sendcode/internal/http/openid/openidtest"
	"sendcode/internal/http/server"
)

// These are the checks of an answer, under short names.
var (
	want, redirects, contains, lacks = consoletest.Want, consoletest.Redirects, consoletest.Contains, consoletest.Lacks
)

// productCost is a hash with the cost of new hashes in the product.
var productCost = unmatchableHash

func TestMain(m *testing.M) {
	CheapHashesForTests()
	os.Exit(m.Run())
}

// atProductCost gives new hashes the cost that they have in the product until the test ends. The
// test must not be parallel.
func atProductCost(t *testing.T) {
	cheap := unmatchableHash
	t.Cleanup(func() { unmatchableHash = cheap })
	unmatchableHash = productCost
}

// rig serves the login and some routes that need an account, with a database in memory and a real
// limiter.
type rig struct {
	*consoletest.Rig
	provider *Provider
	auth     *Auth // of the newest handler
}

func newRig(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{Rig: consoletest.NewRig(t)}
	r.Handler = r.replica(r.Logger, changes...)
	return r
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// replica makes another replica of the console, with the same database, limiter and keys.
func (r *rig) replica(logger *slog.Logger, changes ...func(*Config)) *echo.Echo {
	c := Config{
		Accounts: r.Store, Sessions: r.Store, Factors: r.Store, Limiter: r.Svc.Gates, AdminPassword: consoletest.Password,
		Ring: r.Ring(), Provider: r.provider, Refused: func(string, string) {},
		Tokens: []Token{{SHA256: sha256.Sum256([]byte(consoletest.Token)), Role: Owner}},
	}
	for _, change := range changes {
		change(&c)
	}
	e, l := server.New(server.Config{Logger: logger}),
		layout.New(logger, func(context.Context) layout.ServiceStatus { return layout.ServiceStatus{} })
	r.auth = New(c, l, logger, r.Clock.Now)
	r.auth.Register(e)
	l.Register(e)
	ok := func(c echo.Context) error { return c.NoContent(http.StatusOK) }
	for _, path := range []string{"/admin", "/admin/policies", "/admin/overview", "/admin/sends/:id"} {
		e.GET(path, ok, r.auth.pageMiddleware(ActionRead)...)
	}
	e.POST("/admin/search", ok, r.auth.pageMiddleware(ActionRead)...)
	e.GET("/v1/admin/sends", ok, r.auth.apiMiddleware(ActionRead)...)
	e.GET("/v1/admin/sends.csv", r.exportHandler, r.auth.apiMiddleware(ActionExport)...)
	return e
}

// exportHandler stands for an export of which only the audit entry is written.
func (r *rig) exportHandler(c echo.Context) error {
	act, err := r.auth.NewAuditEntry(c, ActionExport)
	if err == nil {
		err = r.Store.AddAuditEntry(c.Request().Context(), act)
	}
	return err
}

// from returns a browser whose peer has the address, a host:port.
func (r *rig) from(address string) *consoletest.Browser {
	b := r.Browser()
	b.From = address
	return b
}

// newRigWithProvider returns a rig in which people may also log in through a provider on loopback.
func newRigWithProvider(t *testing.T, changes ...func(*Config)) (*rig, *openidtest.Provider) {
	t.Helper()
	server := openidtest.New(t, consoletest.Address+ProviderCallbackPath)
	r := newRig(t)
	r.provider = r.providerAt(server)
	r.Handler = r.replica(r.Logger, changes...)
	server.Do(func() { server.Now = r.Clock.Now })
	return r, server
}

func (r *rig) providerAt(server *openidtest.Provider) *Provider {
	return &Provider{
		Client: openid.New(consoletest.Identities(server), r.Clock.Now), Title: "Example ID", Fingerprint: "one",
		Roles: map[string]Role{"support": Reader, "on-call": Operator, "console-owners": Owner},
	}
}
