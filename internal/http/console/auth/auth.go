// Package auth finds the account that makes a request to the console, and decides what the account
// may do. It has passwords with a second factor, logins through an OpenID Connect provider,
// sessions, bearer tokens, accounts and roles.
package auth

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/codes/keys"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
)

// Config has the settings and dependencies of logging in.
type Config struct {
	Accounts accountStore
	Sessions sessionStore
	Factors  secondFactorStore
	Limiter  limiter

	AdminPassword     string // the password of the account admin
	AdminPasswordHash string // argon2id in PHC form, in place of AdminPassword; if both are empty, the account admin cannot log in
	Tokens            []Token

	Ring     *keys.Ring // seals what browsers and the database keep for the console
	Provider *Provider  // nil: there are only passwords

	DemandFactor bool // every account with a password needs a second factor

	Refused func(what, rule string) // called for each login or token that a rule refused, with "login" or "token" as what
}

// accountStore has the administrators' accounts. Implementation: sqldb.DB.
type accountStore interface {
	AddAccount(ctx context.Context, a store.Account, act store.AuditEntry) error
	ChangeAccount(ctx context.Context, name string, c store.AccountChange, act store.AuditEntry) error
	AccountByIdentity(ctx context.Context, identity string) (store.Account, error)
	Account(ctx context.Context, name string) (store.Account, error)
	Accounts(ctx context.Context) ([]store.Account, error)
	DropSecondFactor(ctx context.Context, account string, act store.AuditEntry) (dropped bool, err error)
}

// sessionStore has the sessions of all accounts. Implementation: sqldb.DB.
type sessionStore interface {
	BeginSession(ctx context.Context, s store.Session, life time.Duration, act store.AuditEntry) (store.Session, error)
	Session(ctx context.Context, id [32]byte) (s store.Session, now time.Time, err error)
	TouchSession(ctx context.Context, id [32]byte) error
	EndSession(ctx context.Context, id [32]byte) error
	EndSessions(ctx context.Context, account string, act store.AuditEntry) (ended bool, err error)
}

// secondFactorStore has the second factors of accounts. Implementation: sqldb.DB.
type secondFactorStore interface {
	AddSecondFactor(ctx context.Context, f store.SecondFactor, act store.AuditEntry) (added bool, err error)
	SecondFactor(ctx context.Context, account string) (store.SecondFactor, error)
	TakeTOTPStep(ctx context.Context, account string, step int64, oldSealed, newSealed []byte) (taken bool, err error)
	DropSecondFactor(ctx context.Context, account string, act store.AuditEntry) (dropped bool, err error)
}

// Auth finds the account that makes a request, and decides what the account may do. It is safe for
// concurrent use.
type Auth struct {
	Config
	attempts      attemptLimiter
	lines         logs.Throttle
	logger        *slog.Logger
	now           func() time.Time
	adminPassword credential
	layout        *layout.Layout
	checks        chan struct{} // bounds the passwords that are checked at once: a slow hash takes much memory
}

const maxConcurrentPasswordChecks = 2

// New returns an Auth. If AdminPasswordHash can't be parsed, New logs an error, and the account
// admin can't log in.
func New(c Config, l *layout.Layout, logger *slog.Logger, now func() time.Time) *Auth {
	a := &Auth{
		Config: c, attempts: attemptLimiter{c.Limiter}, logger: logger,
		now: now, layout: l,
		checks: make(chan struct{}, maxConcurrentPasswordChecks),
	}
	var err error
	if a.adminPassword, err = newCredential(c.AdminPassword, c.AdminPasswordHash); err != nil {
		a.logger.Error("console login disabled: password hash invalid", "error", err, logs.SeeConfiguration)
	}
	return a
}

// Register adds the pages for logging in, for second factors, sessions and accounts.
func (a *Auth) Register(e *echo.Echo) {
	open := a.layout.PageMiddleware()
	e.GET("/admin/login", a.loginPage, open...)
	e.POST("/admin/login", layout.FormHandler(a.login), open...)
	e.POST("/admin/logout", a.logout, open...) // people can also log out before the second factor
	e.GET(codePath, a.codePage, open...)
	e.POST(codePath, layout.FormHandler(a.submitCode), open...)
	if a.Provider != nil {
		e.POST(providerStartPath, layout.FormHandler(a.startProviderLogin), open...)
		e.GET(ProviderCallbackPath, a.finishProviderLogin, a.layout.CrossSitePageMiddleware()...)
	}
	e.GET(factorPath, a.factorPage, a.pageMiddleware(actionFactor)...)
	e.POST(factorPath, layout.FormHandler(a.changeFactor), a.pageMiddleware(actionFactor)...)
	e.POST(sessionsPath, layout.FormHandler(a.endSessions), a.pageMiddleware(actionSession)...)
	e.GET("/admin/accounts", a.accountsPage, a.pageMiddleware(actionAccounts)...)
	e.POST("/admin/accounts", layout.FormHandler(a.changeAccount), a.pageMiddleware(actionAccounts)...)
}
