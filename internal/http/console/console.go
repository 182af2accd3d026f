// Package console serves the administrators' pages and their JSON API. Both answer the question
// "where is my code?". The package lists sends and refusals, newest first, and finds the sends of
// one recipient. It shows what happened to a send, in texts from package explain. Scripts get the
// same data as JSON under /v1/admin.
//
// The console reads the database. It calls packages support and verification to learn the current
// state of a recipient's rules. Package auth changes accounts and logins. Package support makes and
// records all other changes.
//
// A request has a full recipient only in its body, and the console hashes the recipient at once.
// URLs contain the hash. A page shows a full recipient only if an operator reveals it.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/console/records"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// database has the store's methods that the console needs. Implementation: sqldb.DB.
type database interface {
	records.Store
	Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error)
	DomainTallies(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error)
	ApprovalsBy(ctx context.Context, q store.StatsQuery, dimension store.Dimension) ([]store.ApprovalTally, error)
	Sends(ctx context.Context, filter store.Filter) ([]store.SendOrRefusal, error)
	SendDetails(ctx context.Context, id uuid.UUID) (store.SendDetails, error)
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	SendsBySupportReference(ctx context.Context, support string) ([]store.SendOrRefusal, error)
	SendByMessageID(ctx context.Context, carrier, id string) (uuid.UUID, error)
	AddAuditEntry(ctx context.Context, a store.AuditEntry) error
	VerificationsByID(ctx context.Context, ids []string) (list []store.Verification, now time.Time, err error)
	LowConversions(ctx context.Context) ([]store.LowConversion, error)
	SendsByID(ctx context.Context, ids []uuid.UUID) (list []store.SendOrRefusal, now time.Time, err error)
}

// Config has the settings and dependencies of a console.
type Config struct {
	DB             database
	Auth           auth.Config
	Administration *support.Administration
	Logger         *slog.Logger
	Now            func() time.Time // nil: time.Now
	// the service's state, for the line on each page; must return soon
	Status   func(context.Context) ServiceStatus
	Carriers []string // names of the carriers of text messages
	// a resend prefers a server or carrier that its verification has not used
	ResendOther bool
	// names of the mail providers that report by a topic of Amazon SNS
	TopicProviders []string
	Webhooks       records.Webhooks
	// StorageStatus returns the age of the oldest rows, and the number of rows that are due to be
	// deleted.
	StorageStatus func(context.Context) (store.StorageStatus, error)
}

// ServiceStatus is the state of the service. ServicePart is the state of one part that the service
// needs, such as the database. Each page shows them in its status line.
type (
	ServiceStatus = layout.ServiceStatus
	ServicePart   = layout.ServicePart
)

// Console has the pages and the JSON API. Safe for concurrent use.
type Console struct {
	Config
	layout  *layout.Layout
	auth    *auth.Auth
	exports chan struct{} // bounds the number of concurrent exports

	maxExportRows int // in one file; only tests change it
}

// New makes a console. Nothing runs in the background.
func New(c Config) *Console {
	if c.Now == nil {
		c.Now = time.Now
	}
	l := layout.New(c.Logger, func(ctx context.Context) ServiceStatus {
		s := c.Status(ctx)
		s.Now = c.Now()
		return s
	})
	return &Console{
		Config: c, layout: l, auth: auth.New(c.Auth, l, c.Logger, c.Now),
		exports: make(chan struct{}, maxConcurrentExports), maxExportRows: maxExportRows,
	}
}

// clientRoute answers with the address from which a request comes.
var clientRoute = auth.Route{Method: http.MethodGet, Path: "/v1/admin/client", Handler: clientJSON, Action: auth.ActionRead}

// RegisterClientAddress adds clientRoute, which answers with the client's address, to the API's
// listener. Call it if the console has its own listener: `sendcode doctor --behind` sends its
// request through the API's proxy, so the request arrives at the API's listener.
func (console *Console) RegisterClientAddress(e *echo.Echo) {
	console.auth.AddRoutes(e, []auth.Route{clientRoute})
}

// HasAdminToken reports whether the request has an admin token.
func (console *Console) HasAdminToken(c echo.Context) bool { return console.auth.HasToken(c) }

// routes returns the routes of the pages and of the JSON API (below /v1), except the routes of the
// packages records, auth and layout. Paths and answers are a public contract.
func (console *Console) routes() []auth.Route {
	const get, post = http.MethodGet, http.MethodPost
	all := []auth.Route{
		{Method: get, Path: "/admin", Handler: console.listPage, Action: auth.ActionRead},
		{Method: get, Path: "/admin/sends/:id", Handler: console.sendPage, Action: auth.ActionRead},
		{Method: post, Path: "/admin/filter", Handler: layout.FormHandler(console.filterPage), Action: auth.ActionRead},
		{Method: post, Path: "/admin/search", Handler: layout.FormHandler(console.searchPage), Action: auth.ActionRead},
		{Method: get, Path: "/admin/overview", Handler: console.overviewPage, Action: auth.ActionRead},
		{Method: get, Path: "/admin/messages", Handler: console.messagesPage, Action: auth.ActionRead},
		{Method: post, Path: "/admin/messages", Handler: layout.FormHandler(console.testMessageForm), Action: auth.ActionTestMessage},
		{Method: get, Path: "/admin/messages/html", Handler: console.messageHTML, Action: auth.ActionRead},
		{Method: echo.RouteNotFound, Path: "/admin/*", Handler: console.layout.ShowNotFound, Action: auth.ActionRead},
		{Method: get, Path: "/v1/admin/sends", Handler: console.listJSON, Action: auth.ActionRead},
		{Method: get, Path: "/v1/admin/sends/:id", Handler: console.sendJSON, Action: auth.ActionRead},
		clientRoute,
		{Method: get, Path: "/v1/admin/stats", Handler: console.statsJSON, Action: auth.ActionRead},
		{Method: get, Path: "/v1/admin/messages", Handler: console.messagesJSON, Action: auth.ActionRead},
		{Method: get, Path: "/v1/admin/sends.csv", Handler: console.exportCSV, Action: auth.ActionExport},
		{Method: post, Path: "/v1/admin/search", Handler: console.searchJSON, Action: auth.ActionRead},
		{
			Method: post, Path: "/v1/admin/quota/reset",
			Handler: console.recipientActionJSON(auth.ActionResetQuota, console.Administration.ResetQuota),
			Action:  auth.ActionResetQuota,
		},
		{
			Method: post, Path: "/v1/admin/export", Handler: console.recipientJSON(auth.ActionExportRecipient, console.exportPerson),
			Action: auth.ActionExportRecipient,
		},
		{
			Method: post, Path: "/v1/admin/erase",
			Handler: console.recipientActionJSON(auth.ActionEraseRecipient, console.Administration.EraseRecipient),
			Action:  auth.ActionEraseRecipient,
		},
	}
	for _, action := range sendActions {
		all = append(all, auth.Route{
			Method: post, Path: "/admin/sends/:id/" + action.Path, Handler: console.actionForm(action),
			Action: action.Name,
		})
		if action.needsVerification {
			all = append(all, auth.Route{
				Method: post, Path: "/v1/admin/sends/:id/" + action.Path, Handler: console.actionJSON(action),
				Action: action.Name,
			})
		}
	}
	return all
}

// Register adds the pages and the JSON API.
func (console *Console) Register(e *echo.Echo) {
	lists := &records.Handlers{
		Store: console.DB, Administration: console.Administration, Auth: console.auth, Layout: console.layout, Logger: console.Logger,
		Now:            console.Now,
		TopicProviders: console.TopicProviders,
		Webhooks:       console.Webhooks,
	}
	console.auth.AddRoutes(e, append(console.routes(), lists.Routes()...))
	console.layout.Register(e)
	console.auth.Register(e)
}
