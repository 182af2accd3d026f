package auth

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// Role is the level of an account's rights.
type Role string

// A role includes the rights of the roles before it.
const (
	Reader   Role = "reader"
	Operator Role = "operator"
	Owner    Role = "owner"
)

var roleRanks = map[Role]int{Reader: 1, Operator: 2, Owner: 3}

// actionsByMinRole lists for each role the actions that this role allows and lower roles do not
// allow. Each route that needs an account has an action, and refuses actors whose role does not
// allow the action. If an action is missing here, it is refused to everyone. The audit entry of a
// change is named after the action.
var actionsByMinRole = map[Role][]string{
	Reader: {ActionRead, actionFactor, actionSession}, // the second factor and sessions of the actor's own account
	Operator: {
		ActionSuppress, ActionLiftSuppression, ActionLiftPrefixPause, ActionResetQuota, ActionResend, ActionCancel, ActionRevealRecipient,
		ActionExport, ActionExportRecipient, ActionSampleEvent, ActionAcceptSubscription,
	},
	Owner: {ActionEraseRecipient, ActionTestMessage, actionAccounts},
}

// Audit entries name all of these actions but ActionRead.
const (
	ActionRead  = "read" // reads pages without full recipients; the only action that is not recorded
	actionLogin = "login"

	actionLoginPassword = "login.password" // the first half of a login with a second factor
	actionFactor        = "factor"         // audit entries add a dot and what was done, as in "factor.add"
	actionSession       = "session"        // audit entries add a dot and what was done, as in "session.end"

	ActionSuppress        = "suppression.add"
	ActionLiftSuppression = "suppression.lift"

	ActionLiftPrefixPause = "prefix.lift"

	ActionResetQuota         = "quota.reset"
	ActionResend             = "verification.resend"
	ActionCancel             = "verification.cancel"
	ActionRevealRecipient    = "recipient.reveal"
	ActionExportRecipient    = "recipient.export"
	ActionEraseRecipient     = store.ErasureAction
	actionAccounts           = "account" // audit entries add a dot and what was changed, as in "account.role"
	ActionExport             = "sends.export"
	ActionSampleEvent        = "event.sample"
	ActionTestMessage        = support.TestMessageAction
	ActionAcceptSubscription = support.AcceptSubscriptionAction
)

// RecordedActions returns the actions by which the audit log can be filtered, those of support
// first.
func RecordedActions() []string {
	return []string{
		ActionResend, ActionResetQuota, ActionCancel, ActionRevealRecipient, ActionExportRecipient, ActionEraseRecipient,
		ActionSuppress, ActionLiftSuppression, ActionLiftPrefixPause, ActionExport, ActionSampleEvent, ActionTestMessage,
		ActionAcceptSubscription, actionLogin, actionLoginPassword, actionSession + ".end",
		actionFactor + ".add", actionFactor + ".remove",
		actionAccounts + ".add", actionAccounts + ".role", actionAccounts + ".identity", actionAccounts + ".password",
		actionAccounts + ".factor", actionAccounts + ".close", actionAccounts + ".open",
	}
}

// Actor is the account, or the bearer of a token, that makes a request.
type Actor struct {
	Name string
	Role Role
}

// May reports whether the actor's role allows the action.
func (a Actor) May(action string) bool {
	for role, actions := range actionsByMinRole {
		if slices.Contains(actions, action) {
			return roleRanks[a.Role] >= roleRanks[role]
		}
	}
	return false
}

// These are the actors that the settings define. They have no account in the database.
// configuredAccount logs in with the configured password. tokenActorName is the name of a token's
// bearer. A token's ID may follow the name.
var configuredAccount = Actor{"admin", Owner}

const tokenActorName = "token"

// ConfiguredActors returns the actors that the settings define. They are the bearers of the tokens
// and, if password is true, the account admin.
func ConfiguredActors(password bool, tokens []Token) (all []Actor) {
	if password {
		all = append(all, configuredAccount)
	}
	for _, t := range tokens {
		all = append(all, t.actor())
	}
	return all
}

const actorContextKey = "sendcode.admin.actor"

// attachTo stores the actor in the context of the request, and in the layout of the request's page.
func (a Actor) attachTo(c echo.Context) {
	c.Set(actorContextKey, a)
	layout.SetAccount(c, a.Name, string(a.Role))
}

// ActorOf returns the actor of the request. If no session and no token was checked, it returns the
// zero Actor. The zero Actor may do nothing.
func ActorOf(c echo.Context) Actor {
	w, _ := c.Get(actorContextKey).(Actor)
	return w
}

// requirePermission returns middleware that rejects actors whose role does not allow the action.
func (a *Auth) requirePermission(action string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if w := ActorOf(c); !w.May(action) {
				a.logger.WarnContext(c.Request().Context(), "action refused: role not allowed", "account", w.Name,
					"role", string(w.Role),
					"action", action, logs.SeeConsole)
				return &server.Problem{Kind: server.Forbidden, Detail: "This account's role may not do that."}
			}
			return next(c)
		}
	}
}

// Route is a method and a path with their handler. Only actors whose role allows the action may use
// the route.
type Route struct {
	Method, Path string
	Handler      echo.HandlerFunc
	Action       string
}

// AddRoutes registers routes. Each route gets its own middleware. If a group of routes had the
// middleware, a request with a wrong method would get 404 instead of 405.
func (a *Auth) AddRoutes(e *echo.Echo, routes []Route) {
	for _, r := range routes {
		before := a.pageMiddleware(r.Action)
		if strings.HasPrefix(r.Path, "/v1/") {
			before = a.apiMiddleware(r.Action)
		}
		e.Add(r.Method, r.Path, r.Handler, before...)
	}
}

// pageMiddleware returns the middleware of a page. The middleware requires a session with a role
// that allows the action.
func (a *Auth) pageMiddleware(action string) []echo.MiddlewareFunc {
	return append(a.layout.PageMiddleware(), a.requireSession, a.requirePermission(action))
}

// apiMiddleware returns the middleware of a route of the JSON API. The middleware requires a token
// or a session, with a role that allows the action.
func (a *Auth) apiMiddleware(action string) []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{server.RequireSameOrigin, a.requireTokenOrSession, a.requirePermission(action)}
}

// NewAuditEntry returns an audit entry for an action, with the account and the network of the
// request. It does not write the entry. The caller sets the other fields. If a method of the store
// performs the action, that method writes the entry. Otherwise the caller writes the entry by
// AddAuditEntry before it performs the action.
func (a *Auth) NewAuditEntry(c echo.Context, action string) (store.AuditEntry, error) {
	id, err := uuid.NewV7()
	w := ActorOf(c)
	return store.AuditEntry{
		ID: id, Who: w.Name, Role: string(w.Role), Network: clientNetwork(c), What: action, Outcome: store.AuditDone,
	}, err
}
