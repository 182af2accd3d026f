// Package records has the console's lists of records other than sends: administrators' actions,
// suppressed recipients, paused number prefixes, webhook events, and the rules in force. Each list
// is a page. Each list except the rules is also available as JSON below /v1. Administrators can add
// and end suppressions, and can end pauses.
package records

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// Store reads the lists, and writes audit entries. Implementation: sqldb.DB.
type Store interface {
	AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error)
	Suppressions(ctx context.Context, f store.SuppressionFilter) (list []store.Suppression, now time.Time, err error)
	AppEvents(ctx context.Context, filter store.AppEventFilter) ([]store.AppEvent, error)
	PrefixPauses(ctx context.Context, f store.PrefixPauseFilter) (list []store.PrefixPause, now time.Time, err error)
	AddAuditEntry(ctx context.Context, a store.AuditEntry) error
	StopCounts(ctx context.Context, from, to time.Time) ([]store.StopCount, error)
}

// Webhooks posts made-up events to apps. Implementation: *webhook.Deliverer.
type Webhooks interface {
	Apps() []string // the apps that have a webhook
	PostSample(ctx context.Context, app, event string) (answer string, ok bool, err error)
}

// Handlers has the pages and the JSON. Safe for concurrent use.
type Handlers struct {
	Store          Store
	Administration *support.Administration
	Auth           *auth.Auth
	Layout         *layout.Layout
	Logger         *slog.Logger
	Now            func() time.Time
	Webhooks       Webhooks
	TopicProviders []string // the names of the mail providers whose subscription can be accepted
}

// actionProblemText returns what is wrong with the form of a list, in the reader's language.
// maxLength is that of a reason, in characters.
func actionProblemText(w texts.Words, list string, bad *fault.InvalidError, maxLength int) string {
	if bad.Field == "reason" {
		return layout.ReasonProblem(w, bad, maxLength)
	}
	return cmp.Or(w.Get(list+".problem."+bad.Field), bad.Detail)
}

// Routes returns the pages and their JSON.
func (handlers *Handlers) Routes() []auth.Route {
	const get, post = http.MethodGet, http.MethodPost
	return []auth.Route{
		{Method: get, Path: "/admin/acts", Handler: handlers.auditPage, Action: auth.ActionRead},
		{
			Method: post, Path: "/admin/acts/subscription", Handler: layout.FormHandler(handlers.acceptSubscriptionForm),
			Action: auth.ActionAcceptSubscription,
		},
		{Method: get, Path: "/admin/policies", Handler: handlers.policiesPage, Action: auth.ActionRead},
		{Method: get, Path: suppressionsPath, Handler: handlers.suppressionsPage, Action: auth.ActionRead},
		{Method: post, Path: suppressionsPath, Handler: layout.FormHandler(handlers.suppressForm), Action: auth.ActionSuppress},
		{
			Method: post, Path: suppressionsPath + "/lift", Handler: layout.FormHandler(handlers.liftSuppressionsForm),
			Action: auth.ActionLiftSuppression,
		},
		{Method: get, Path: prefixesPath, Handler: handlers.prefixesPage, Action: auth.ActionRead},
		{
			Method: post, Path: prefixesPath + "/lift", Handler: layout.FormHandler(handlers.liftPrefixForm),
			Action: auth.ActionLiftPrefixPause,
		},
		{Method: get, Path: "/admin/webhooks", Handler: handlers.webhookEventsPage, Action: auth.ActionRead},
		{Method: post, Path: "/admin/webhooks", Handler: layout.FormHandler(handlers.postSampleEventForm), Action: auth.ActionSampleEvent},
		{Method: get, Path: "/v1/admin/acts", Handler: handlers.auditEntryList().ServeJSON, Action: auth.ActionRead},
		{Method: post, Path: "/v1/admin/subscriptions", Handler: handlers.acceptSubscriptionJSON, Action: auth.ActionAcceptSubscription},
		{Method: get, Path: "/v1" + suppressionsPath, Handler: handlers.suppressionList().ServeJSON, Action: auth.ActionRead},
		{Method: post, Path: "/v1" + suppressionsPath, Handler: handlers.suppressJSON, Action: auth.ActionSuppress},
		{
			Method: post, Path: "/v1" + suppressionsPath + "/lift", Handler: handlers.liftSuppressionsJSON,
			Action: auth.ActionLiftSuppression,
		},
		{Method: get, Path: "/v1" + prefixesPath, Handler: handlers.prefixPauseList().ServeJSON, Action: auth.ActionRead},
		{Method: post, Path: "/v1" + prefixesPath + "/lift", Handler: handlers.liftPrefixJSON, Action: auth.ActionLiftPrefixPause},
		{Method: get, Path: "/v1/admin/webhooks", Handler: handlers.webhookEventList().ServeJSON, Action: auth.ActionRead},
	}
}
