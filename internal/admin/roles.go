package admin

import (
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
	"sendcode/internal/store"
)

// Role is what an account may do: an operator all that a reader may, an owner everything.
type Role string

// The roles.
const (
	Reader   Role = "reader"
	Operator Role = "operator"
	Owner    Role = "owner"
)

var ranks = map[Role]int{Reader: 1, Operator: 2, Owner: 3}

// least is the one table of who may do what: the least role for each deed. A route names its deed, and is refused to those
// below; a deed that is not here is refused to everybody. Those that change something are recorded under the same word.
var least = map[string]Role{
	deedRead:  Reader,
	deedLogin: Reader,

	deedPassword: Reader,
	deedFactor:   Reader, // their own
	deedSuppress: Operator,
	deedLift:     Operator,

	deedLiftPrefix: Operator,

	deedReset:    Operator,
	deedResend:   Operator,
	deedCancel:   Operator,
	deedReveal:   Operator,
	deedErase:    Owner,
	deedAccounts: Owner,
	deedExport:   Operator,
	deedPreview:  Operator,
}

// The deeds.
const (
	deedRead  = "read" // to look at anything that shows no full recipient; the only one that is not recorded
	deedLogin = "login"

	deedPassword = "login.password" // the first half of it, where a second factor follows
	deedFactor   = "factor"         // a dot and what was done follow in the record

	deedSuppress = "suppression.add"
	deedLift     = "suppression.lift"

	deedLiftPrefix = "prefix.lift"

	deedReset    = "quota.reset"
	deedResend   = "verification.resend"
	deedCancel   = "verification.cancel"
	deedReveal   = "recipient.reveal"
	deedErase    = "recipient.erase"
	deedAccounts = "account" // a dot and what was changed follow in the record
	deedExport   = "sends.export"
	deedPreview  = "preview.send"
)

// actor is who makes a request.
type actor struct {
	name string
	role Role
}

func (w actor) may(deed string) bool {
	needed, known := ranks[least[deed]]
	return known && ranks[w.role] >= needed
}

// Who has no account in the log: the one of the password in the settings, and the bearer of the token.
var bootstrap = actor{"admin", Owner}

const bearerName = "token"

const actorKey = "sendcode.admin.actor"

// is notes who makes the request; whoever stands before handlers does it.
func (w actor) is(c echo.Context) { c.Set(actorKey, w) }

// actorOf is nobody, who may do nothing, where no session and no token was asked for.
func actorOf(c echo.Context) actor {
	w, _ := c.Get(actorKey).(actor)
	return w
}

// allowed refuses a deed to those whose role is below it.
func (a *Admin) allowed(deed string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if w := actorOf(c); !w.may(deed) {
				a.logger.WarnContext(c.Request().Context(), "refused to an account of this role", "account", w.name, "role", string(w.role), "deed", deed)
				return &server.Problem{Kind: server.Forbidden, Detail: "This account's role may not do that."}
			}
			return next(c)
		}
	}
}

// toPages is what stands before a page for which somebody must be logged in.
func (a *Admin) toPages(deed string) []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{a.asPages, a.sameOrigin, a.pagesNeedSession, a.allowed(deed)}
}

// toPrograms is the same before a part of the JSON API.
func (a *Admin) toPrograms(deed string) []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{a.sameOrigin, a.programsNeedKey, a.allowed(deed)}
}

// act begins the record of a deed: who does it, from where. What, on whom and why is the caller's to add, and to have
// written, by the log's own method where the effect is in the log, else by AddAuditEntry before the effect.
func (a *Admin) act(c echo.Context, deed string) (store.AuditEntry, error) {
	id, err := uuid.NewV7()
	w := actorOf(c)
	return store.AuditEntry{
		ID: id, Who: w.name, Role: string(w.role), Network: network(server.ClientIP(c)), What: deed, Outcome: store.AuditDone,
	}, err
}
