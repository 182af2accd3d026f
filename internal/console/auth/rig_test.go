package auth

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/layout"
	"sendcode/internal/keyring"
	"sendcode/internal/openid"
	"sendcode/internal/openid/openidtest"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/quota"
)

// What every test checks of an answer.
var (
	want, contains, lacks = consoletest.Want, consoletest.Contains, consoletest.Lacks
)

// rig is logging in over a log in memory, a real limiter, and some routes that need an account.
type rig struct {
	*testing.T
	clock    *consoletest.Clock
	log      *sqlite.DB
	limiter  *quota.Memory
	ring     *keyring.Ring
	provider *Provider
	logged   *bytes.Buffer
	auth     *Auth // behind the newest handler
	handler  *echo.Echo
}

func newRig(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{T: t, clock: consoletest.NewClock(), logged: &bytes.Buffer{}, ring: consoletest.Ring(t)}
	r.log, r.limiter = sqlitetest.Open(t, r.clock.Now), quota.NewMemory(r.clock.Now, "test")
	r.handler = r.replica(r.logger(), changes...)
	return r
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// replica makes another one over the same parts.
func (r *rig) replica(logger *slog.Logger, changes ...func(*Config)) *echo.Echo {
	c := Config{
		Accounts: r.log, Limiter: r.limiter, Password: consoletest.Password, Token: consoletest.Token, TokenRole: Owner, Ring: r.ring, Provider: r.provider,
	}
	for _, change := range changes {
		change(&c)
	}
	e, l := server.New(server.Config{Logger: logger}), layout.New(logger)
	r.auth = New(c, l, logger, r.clock.Now)
	r.auth.Register(e)
	l.Register(e)
	ok := func(c echo.Context) error { return c.NoContent(http.StatusOK) }
	for _, path := range []string{"/admin", "/admin/preview", "/admin/overview", "/admin/tail", "/admin/sends/:id"} {
		e.GET(path, ok, r.auth.PagesFor(ActionRead)...)
	}
	e.POST("/admin/search", ok, r.auth.PagesFor(ActionRead)...)
	e.GET("/admin/acts", r.actsPage, r.auth.PagesFor(ActionRead)...)
	e.GET("/v1/admin/sends", ok, r.auth.ProgramsFor(ActionRead)...)
	e.GET("/v1/admin/sends.csv", r.recorded, r.auth.ProgramsFor(ActionExport)...)
	return e
}

// recorded does nothing but record it.
func (r *rig) recorded(c echo.Context) error {
	act, err := r.auth.Record(c, ActionExport)
	if err == nil {
		err = r.log.AddAuditEntry(c.Request().Context(), act)
	}
	return err
}

// actsPage lists what was recorded.
func (r *rig) actsPage(c echo.Context) error {
	list, err := r.log.AuditEntries(c.Request().Context(), store.AuditFilter{Limit: 200})
	var out strings.Builder
	for _, act := range list {
		_, _ = out.WriteString(act.Who + " (" + act.Role + ") " + layout.Words(c).Or("deed", act.What) + "\n")
	}
	if err != nil {
		return err
	}
	return c.String(http.StatusOK, out.String())
}

func (r *rig) id() uuid.UUID {
	r.Helper()
	id, err := uuid.NewV7()
	r.must(err)
	return id
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// browser is one in front of the newest replica.
type browser struct {
	*consoletest.Browser
	rig *rig
}

func (r *rig) browser() *browser {
	return &browser{consoletest.NewBrowser(r.T, r.handler), r}
}

// loggedIn is a browser with a session.
func (r *rig) loggedIn() *browser {
	r.Helper()
	b := r.browser()
	want(r.T, b.Login(consoletest.Password), http.StatusSeeOther)
	return b
}

// as is a browser in which an account of the role is logged in.
func (r *rig) as(role Role) *browser {
	r.Helper()
	name := "the-" + string(role)
	r.account(store.Account{Name: name, Role: string(role), Password: consoletest.SmallHash(name + "'s password")})
	b := r.browser()
	want(r.T, b.LoginAs(name, name+"'s password"), http.StatusSeeOther)
	return b
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

// besideProvider is a rig whose people may also log in by a provider, which is real and on loopback.
func besideProvider(t *testing.T, changes ...func(*Config)) (*rig, *openidtest.Provider) {
	t.Helper()
	server := openidtest.New(t, consoletest.Address+ProviderCallback)
	r := newRig(t)
	r.provider = r.providerAt(server)
	r.handler = r.replica(r.logger(), changes...)
	server.Do(func() { server.Now = r.clock.Now })
	return r, server
}

func (r *rig) providerAt(server *openidtest.Provider) *Provider {
	return &Provider{
		Asked: openid.New(consoletest.Identities(server), r.clock.Now), Title: "Example ID", About: "one",
		Roles: map[string]Role{"support": Reader, "on-call": Operator, "console-owners": Owner},
	}
}

// between is what stands in a page between two texts.
func between(t *testing.T, page, before, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, before)
	if !found {
		t.Fatalf("%q is missing in: %s", before, page)
	}
	text, _, _ := strings.Cut(rest, after)
	text, _, _ = strings.Cut(text, "&")
	return text
}

func (r *rig) acts(want ...string) { r.Helper(); consoletest.WantActs(r.T, r.log, want...) }
