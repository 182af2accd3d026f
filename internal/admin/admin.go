// Package admin is the console: it answers "where is my code?" for those who run the service. It lists sends and
// refusals, newest first, finds those of one recipient, and tells the story of one send, opening with a sentence that
// says what happened and what to do next. The same is there as JSON for scripts, under /v1/admin.
//
// It stands at the reading end of the way of a send: it reads the log and asks the use cases what a recipient's
// rules say now. What it changes it has the use cases change, and each such deed is recorded as an act. Who reads is known by
// a session, which a password with its second factor or a provider's word began, or by the bearer token.
//
// No full recipient passes through it in either direction but what is typed into the search and into a suppression, which
// comes in a request's body and is hashed at once. Addresses of pages carry the hash.
package admin

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/keyring"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/quota"
)

// Log is what the console reads. Implementations: postgres.DB and sqlite.DB.
type Log interface {
	Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error)
	Domains(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error)
	Sends(ctx context.Context, filter store.Filter) ([]store.Send, error)
	Story(ctx context.Context, id uuid.UUID) (store.Story, error)
	Referenced(ctx context.Context, support string) ([]store.Send, error)
	Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]store.Send, error)
	AddAuditEntry(ctx context.Context, a store.AuditEntry) error
	AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error)
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]store.Send, error)
	store.AccountStore
	Suppressions(ctx context.Context, f store.SuppressionFilter) ([]store.Suppression, time.Time, error)
	AppEvents(ctx context.Context, filter store.AppEventFilter) ([]store.AppEvent, error)
	PrefixPauses(ctx context.Context, f store.PrefixPauseFilter) ([]store.PrefixPause, time.Time, error)
}

// Codes turns an address into the hash that the log knows, and says what a recipient's rules answer now.
// Implementation: *support.Desk.
type Codes interface {
	Hash(channel, to string) (recipient.Hash, error)
	Served(channel, to string) error
	NearSpellings(ctx context.Context, channel, to string, most int) ([]store.Send, error)
	RecipientQuota(ctx context.Context, app string, ch recipient.Channel, purpose string, h recipient.Hash) (quota.Decision, error)
	Suppress(ctx context.Context, b support.SuppressRequest) (store.Suppression, error)
	Lift(ctx context.Context, l support.LiftRequest) ([]store.Suppression, error)
	Paused(ch recipient.Channel, purpose string) (policy.Pause, bool)
	Lockouts(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash) ([]store.Lockout, error)
}

// Limiter counts attempts to log in, over all replicas where it is theirs. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, r quota.Request) (quota.Decision, error)
}

// Config is what a console works with.
type Config struct {
	Log      Log
	Codes    Codes
	Doer     Doer
	Policies Policies
	Previews Previews
	Limiter  Limiter
	Logger   *slog.Logger
	Now      func() time.Time                                   // nil: time.Now
	Aside    func() []Aside                                     // the mail servers and carriers that get nothing now; nil: none
	Extent   func(context.Context) (store.StorageStatus, error) // how far the log reaches; nil: nobody is told

	Password     string // of the login page
	PasswordHash string // argon2id in PHC form, instead of Password; with neither nobody can log in
	Token        string // bearer token of the JSON API; empty: none is accepted
	TokenRole    Role   // of who brings it; one that does not exist may do nothing
	Tokens       []Token

	Ring     *keyring.Ring // seals what browsers and the log keep for the console
	Provider *Provider     // that may log people in; nil: passwords alone

	DemandFactor bool // of all who log in with a password

	Refused func(what, rule string) // hears of attempts that a rule refused: what is login or token; nil: not counted
}

// Aside is a mail server, or a carrier of text messages, that this process has set aside after failures.
type Aside struct {
	Carrier bool
	Server  string // host:port; of a carrier its name
	Since   time.Time
	Why     string
}

// Admin is the console. Safe for concurrent use.
type Admin struct {
	log      Log
	tail     *tail
	exports  chan struct{} // bounds the exports at once
	codes    Codes
	doer     Doer
	policies Policies
	previews Previews
	replays  chan struct{} // bounds the replays at once
	limiter  Limiter
	spare    Limiter // counts while the limiter is away
	lines    lines
	refused  func(what, rule string)
	logger   *slog.Logger
	now      func() time.Time
	aside    func() []Aside
	reaches  func(context.Context) (store.StorageStatus, error)
	password password
	tokens   []Token
	ring     *keyring.Ring
	provider *Provider // nil: passwords alone
	demands  bool      // a second factor beside a password
	pages    *pages
	origin   *http.CrossOriginProtection
	checks   chan struct{} // bounds the passwords that are checked at once: a slow hash takes much memory
}

// New makes a console. Nothing runs in the background but while somebody follows the log. A PasswordHash that cannot be read lets nobody in.
func New(c Config) *Admin {
	a := &Admin{
		log: c.Log, codes: c.Codes, doer: c.Doer, policies: c.Policies, previews: c.Previews, replays: make(chan struct{}, 1), limiter: c.Limiter, logger: c.Logger, now: c.Now, aside: c.Aside, reaches: c.Extent,
		tokens: slices.Clone(c.Tokens), ring: c.Ring, provider: c.Provider, demands: c.DemandFactor, refused: c.Refused,
		pages: newPages(), origin: http.NewCrossOriginProtection(), checks: make(chan struct{}, maxChecks),
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.aside == nil {
		a.aside = func() []Aside { return nil }
	}
	if a.refused == nil {
		a.refused = func(string, string) {}
	}
	a.tail, a.exports = newTail(c.Log, c.Logger), make(chan struct{}, maxExports)
	a.spare = quota.NewMemory(a.now, "console")
	var err error
	if a.password, err = newPassword(c.Password, c.PasswordHash); err != nil {
		a.logger.Error("nobody can log in to the console: the password's hash cannot be read", "error", err)
	}
	if c.Token != "" {
		a.tokens = append(a.tokens, Token{SHA256: sha256.Sum256([]byte(c.Token)), Role: c.TokenRole})
	}
	return a
}

// Stop ends the streams of those who follow the log, so that nobody waits for them.
func (a *Admin) Stop() { a.tail.close() }

// maxChecks is how many passwords are checked at once.
const maxChecks = 2

// Register adds the pages and the JSON API. Their names and answers are a contract: DESIGN.md, section 3. What stands
// before a handler is said per route: a group's middleware would answer 404 where 405 is due.
func (a *Admin) Register(e *echo.Echo) {
	open := []echo.MiddlewareFunc{a.asPages, a.sameOrigin}
	e.GET("/admin/login", a.loginPage, open...)
	e.POST("/admin/login", a.login, open...)
	if a.provider != nil {
		e.POST(providerStart, a.startProvider, open...)
		e.GET(ProviderCallback, a.finishProvider, a.asPages) // which the provider's site leads to
	}
	e.GET("/admin/static/:name", a.static)

	closed := a.toPages(deedRead)
	e.GET("/admin", a.listPage, closed...)
	e.GET("/admin/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/admin") })
	e.GET("/admin/sends/:id", a.sendPage, closed...)
	e.GET("/admin/acts", a.actsPage, closed...)
	e.POST("/admin/search", a.searchPage, closed...)
	e.GET("/admin/overview", a.overviewPage, closed...)
	e.GET("/admin/policies", a.policiesPage, closed...)
	e.GET("/admin/suppressions", a.suppressionsPage, closed...)
	e.GET("/admin/webhooks", a.eventsPage, closed...)
	e.GET("/admin/tail", a.tailPage, closed...)
	e.GET("/admin/tail/rows", a.tailRows, a.toPrograms(deedRead)...)
	e.POST("/admin/logout", a.logout, open...) // also halfway in
	a.registerFactor(e)
	e.POST("/admin/suppressions", a.suppressForm, a.toPages(deedSuppress)...)
	e.POST("/admin/suppressions/lift", a.liftForm, a.toPages(deedLift)...)

	a.registerDeeds(e)
	e.GET("/admin/accounts", a.accountsPage, a.toPages(deedAccounts)...)
	e.POST("/admin/accounts", a.changeAccount, a.toPages(deedAccounts)...)
	a.registerPreview(e)
	a.registerPrefixes(e)
	programs := a.toPrograms(deedRead)
	e.GET("/v1/admin/sends", a.listJSON, programs...)
	e.GET("/v1/admin/sends/:id", a.sendJSON, programs...)
	e.GET("/v1/admin/stats", a.statsJSON, a.toPrograms(deedRead)...)
	e.GET("/v1/admin/sends.csv", a.exportCSV, a.toPrograms(deedExport)...)
	e.GET("/v1/admin/acts", a.actsJSON, programs...)
	e.GET("/v1/admin/suppressions", a.suppressionsJSON, programs...)
	e.POST("/v1/admin/search", a.searchJSON, programs...)
	e.POST("/v1/admin/suppressions", a.suppressJSON, a.toPrograms(deedSuppress)...)
	e.POST("/v1/admin/suppressions/lift", a.liftJSON, a.toPrograms(deedLift)...)
	e.GET("/v1/admin/webhooks", a.eventsJSON, programs...)
	e.GET("/v1/admin/tail", a.tailJSON, programs...)
}
