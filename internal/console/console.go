// Package console answers "where is my code?" for those who run the service. It lists sends and refusals, newest first, finds those of
// one recipient, and shows the story of one send, which package explain tells. The same is there as JSON for scripts, under /v1/admin.
//
// It stands at the reading end of the way of a send: it reads the log and asks the use cases what a recipient's
// rules say now. What it changes it has the use cases change, and each such action is recorded.
//
// No full recipient passes through it in either direction but what is typed into the search and into a suppression, which
// comes in a request's body and is hashed at once. Addresses of pages carry the hash.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/console/live"
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
	Auth     auth.Config
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
	layout  *layout.Layout
	auth    *auth.Auth
	tail    *live.Tail
	exports chan struct{} // bounds the exports at once
	replays chan struct{} // bounds the replays at once
}

// New makes a console. Nothing runs in the background but the tail, while the log is followed.
func New(c Config) *Console {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Aside == nil {
		c.Aside = func() []Aside { return nil }
	}
	l := layout.New(c.Logger)
	return &Console{
		Config: c, layout: l, auth: auth.New(c.Auth, l, c.Logger, c.Now), tail: live.New(c.Log, c.Logger),
		exports: make(chan struct{}, maxExports), replays: make(chan struct{}, 1),
	}
}

// Stop ends the streams of those who follow the log, so that a stop does not wait for them.
func (a *Console) Stop() { a.tail.Close() }

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
		{get, "/admin", a.listPage, auth.ActionRead},
		{get, "/admin/sends/:id", a.sendPage, auth.ActionRead},
		{get, "/admin/acts", a.actsPage, auth.ActionRead},
		{post, "/admin/search", layout.Form(a.searchPage), auth.ActionRead},
		{get, "/admin/overview", a.overviewPage, auth.ActionRead},
		{get, "/admin/policies", a.policiesPage, auth.ActionRead},
		{get, "/admin/suppressions", a.suppressionsPage, auth.ActionRead},
		{post, "/admin/suppressions", layout.Form(a.suppressForm), auth.ActionSuppress},
		{post, "/admin/suppressions/lift", layout.Form(a.liftForm), auth.ActionLift},
		{get, "/admin/prefixes", a.prefixesPage, auth.ActionRead},
		{post, "/admin/prefixes/lift", layout.Form(a.liftPrefixForm), auth.ActionLiftPrefix},
		{get, "/admin/webhooks", a.eventsPage, auth.ActionRead},
		{get, "/admin/tail", a.tailPage, auth.ActionRead},
		{get, "/admin/preview", a.previewPage, auth.ActionRead},
		{get, "/admin/preview/html", a.previewHTML, auth.ActionRead},
		{post, "/admin/preview", layout.Form(a.tryForm), auth.ActionPreview},
		{get, "/v1/admin/sends", a.listJSON, auth.ActionRead},
		{get, "/v1/admin/sends/:id", a.sendJSON, auth.ActionRead},
		{get, "/v1/admin/stats", a.statsJSON, auth.ActionRead},
		{get, "/v1/admin/sends.csv", a.exportCSV, auth.ActionExport},
		{get, "/v1/admin/acts", listing.JSON(a.acts(), store.AuditFilter{}, actJSONOf), auth.ActionRead},
		{get, "/v1/admin/suppressions", listing.JSON(a.suppressions(), store.SuppressionFilter{}, suppressionOf), auth.ActionRead},
		{post, "/v1/admin/suppressions", a.suppressJSON, auth.ActionSuppress},
		{post, "/v1/admin/suppressions/lift", a.liftJSON, auth.ActionLift},
		{get, "/v1/admin/prefixes", listing.JSON(a.prefixes(), store.PrefixPauseFilter{}, prefixJSONOf), auth.ActionRead},
		{post, "/v1/admin/prefixes/lift", a.liftPrefixJSON, auth.ActionLiftPrefix},
		{post, "/v1/admin/search", a.searchJSON, auth.ActionRead},
		{get, "/v1/admin/webhooks", listing.JSON(a.events(), store.AppEventFilter{}, eventJSONOf), auth.ActionRead},
		{get, "/v1/admin/tail", a.tailJSON, auth.ActionRead},
		{post, "/v1/admin/quota/reset", a.personJSON(auth.ActionReset, a.Actions.ResetQuota), auth.ActionReset},
		{post, "/v1/admin/erase", a.personJSON(auth.ActionErase, a.Actions.Erase), auth.ActionErase},
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
		before := a.auth.PagesFor(r.action)
		if strings.HasPrefix(r.path, "/v1/") {
			before = a.auth.ProgramsFor(r.action)
		}
		e.Add(r.method, r.path, r.handler, before...)
	}
	e.GET("/admin/tail/rows", a.tailRows, a.auth.ProgramsFor(auth.ActionRead)...) // asked for by a script, which no login page helps
	a.layout.Register(e)
	a.auth.Register(e)
}
