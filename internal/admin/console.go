// Package admin is the console: it answers "where is my code?" for those who run the service. It lists sends and
// refusals, newest first, finds those of one recipient, and tells the story of one send, opening with a sentence that
// says what happened and what to do next. The same is there as JSON for scripts, under /v1/admin.
//
// It stands at the reading end of the way of a send: it reads the log and asks the use cases what a recipient's
// rules say now. What it changes it has the use cases change, and each such action is recorded.
//
// No full recipient passes through it in either direction but what is typed into the search and into a suppression, which
// comes in a request's body and is hashed at once. Addresses of pages carry the hash.
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/quota"
)

// Log is what the console reads and records. Implementations: postgres.DB and sqlite.DB.
type Log interface {
	Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error)
	Domains(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error)
	Sends(ctx context.Context, filter store.Filter) ([]store.Send, error)
	Story(ctx context.Context, id uuid.UUID) (store.Story, error)
	Referenced(ctx context.Context, support string) ([]store.Send, error)
	Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]store.Send, error)
	AddAuditEntry(ctx context.Context, a store.AuditEntry) error
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]store.Send, error)
	AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error)
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

// Config is what a console works with.
type Config struct {
	Log      Log
	Auth     AuthConfig
	Codes    Codes
	Actions  Actions
	Policies Policies
	Previews Previews
	Logger   *slog.Logger
	Now      func() time.Time                                   // nil: time.Now
	Aside    func() []Aside                                     // the mail servers and carriers that get nothing now; nil: none
	Extent   func(context.Context) (store.StorageStatus, error) // how far the log reaches; nil: it is not shown
}

// Aside is a mail server, or a carrier of text messages, that this process has set aside after failures.
type Aside struct {
	Carrier bool
	Server  string // host:port; of a carrier its name
	Since   time.Time
	Why     string
}

// Console has the pages and the JSON API. Safe for concurrent use.
type Console struct {
	Config
	layout  *Layout
	auth    *Auth
	tail    *Tail
	exports chan struct{} // bounds the exports at once
	replays chan struct{} // bounds the replays at once
}

// New makes a console. Nothing runs in the background but the tail, while somebody follows the log.
func New(c Config) *Console {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Aside == nil {
		c.Aside = func() []Aside { return nil }
	}
	l := newLayout(c.Logger)
	return &Console{
		Config: c, layout: l, auth: newAuth(c.Auth, l, c.Logger, c.Now), tail: newTail(c.Log, c.Logger), exports: make(chan struct{}, maxExports), replays: make(chan struct{}, 1),
	}
}

// Stop ends the streams of those who follow the log, so that nobody waits for them.
func (a *Console) Stop() { a.tail.close() }

// route is one method of one path. Its action is what a role must be allowed.
type route struct {
	method, path string
	handler      echo.HandlerFunc
	action       string
}

// routes are the pages and, below /v1, the JSON API. Their names and answers are a contract.
func (a *Console) routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	all := []route{
		{get, "/admin", a.listPage, ActionRead},
		{get, "/admin/sends/:id", a.sendPage, ActionRead},
		{get, "/admin/acts", a.actsPage, ActionRead},
		{post, "/admin/search", a.searchPage, ActionRead},
		{get, "/admin/overview", a.overviewPage, ActionRead},
		{get, "/admin/policies", a.policiesPage, ActionRead},
		{get, "/admin/suppressions", a.suppressionsPage, ActionRead},
		{post, "/admin/suppressions", a.suppressForm, ActionSuppress},
		{post, "/admin/suppressions/lift", a.liftForm, ActionLift},
		{get, "/admin/prefixes", a.prefixesPage, ActionRead},
		{post, "/admin/prefixes/lift", a.liftPrefixForm, ActionLiftPrefix},
		{get, "/admin/webhooks", a.eventsPage, ActionRead},
		{get, "/admin/tail", a.tailPage, ActionRead},
		{get, "/admin/preview", a.previewPage, ActionRead},
		{get, "/admin/preview/html", a.previewHTML, ActionRead},
		{post, "/admin/preview", a.tryForm, ActionPreview},
		{get, "/v1/admin/sends", a.listJSON, ActionRead},
		{get, "/v1/admin/sends/:id", a.sendJSON, ActionRead},
		{get, "/v1/admin/stats", a.statsJSON, ActionRead},
		{get, "/v1/admin/sends.csv", a.exportCSV, ActionExport},
		{get, "/v1/admin/acts", a.actsJSON, ActionRead},
		{get, "/v1/admin/suppressions", a.suppressionsJSON, ActionRead},
		{post, "/v1/admin/suppressions", a.suppressJSON, ActionSuppress},
		{post, "/v1/admin/suppressions/lift", a.liftJSON, ActionLift},
		{get, "/v1/admin/prefixes", a.prefixesJSON, ActionRead},
		{post, "/v1/admin/prefixes/lift", a.liftPrefixJSON, ActionLiftPrefix},
		{post, "/v1/admin/search", a.searchJSON, ActionRead},
		{get, "/v1/admin/webhooks", a.eventsJSON, ActionRead},
		{get, "/v1/admin/tail", a.tailJSON, ActionRead},
		{post, "/v1/admin/quota/reset", a.personJSON(ActionReset, a.Actions.ResetQuota), ActionReset},
		{post, "/v1/admin/erase", a.personJSON(ActionErase, a.Actions.Erase), ActionErase},
	}
	for _, d := range sendActions {
		all = append(all, route{post, "/admin/sends/:id/" + d.path, a.actionPage(d), d.name})
		if d.code {
			all = append(all, route{post, "/v1/admin/sends/:id/" + d.path, a.actionJSON(d), d.name})
		}
	}
	return all
}

// Register adds the pages and the JSON API. What stands before a handler is said per route: a group's middleware would answer 404
// where 405 is due.
func (a *Console) Register(e *echo.Echo) {
	for _, r := range a.routes() {
		before := a.auth.pagesFor(r.action)
		if strings.HasPrefix(r.path, "/v1/") {
			before = a.auth.programsFor(r.action)
		}
		e.Add(r.method, r.path, r.handler, before...)
	}
	e.GET("/admin/tail/rows", a.tailRows, a.auth.programsFor(ActionRead)...) // asked for by a script, which no login page helps
	e.GET("/admin/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/admin") })
	e.GET("/admin/static/:name", a.layout.static)
	a.auth.register(e)
}
