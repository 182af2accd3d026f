// Package api is the surface for programs: it reads JSON, calls the use cases and writes their answers with the
// headers that tell the truth about waiting. It decides nothing itself.
//
// It stands between package server, which it registers on, and package verification. docs/openapi.yaml describes it.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/limits"
	"sendcode/internal/verification"
)

// Codes are the use cases that the API offers. Implementation: verification.Service.
type Codes interface {
	Send(ctx context.Context, ask verification.Ask) (verification.Answer, error)
	Get(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
	Quota(ctx context.Context, c verification.Caller, channel, to, purpose string) (verification.Answer, error)
	Check(ctx context.Context, c verification.Caller, id, code string) (verification.Checked, error)
	CheckNamed(ctx context.Context, c verification.Caller, n verification.Named, code string) (verification.Checked, error)
	Cancel(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
	Offers(purpose string) []verification.Offer
}

// API answers under /v1.
type API struct {
	codes    Codes
	keys     atomic.Pointer[accepted]
	logger   *slog.Logger
	now      func() time.Time
	requests Requests // nil: no limit
	limits   Limits
	proofs   Proofs
}

// Requests bounds the requests of a network. Implementation: *server.Requests.
type Requests interface {
	Admit(ip netip.Addr) (wait time.Duration, ok bool)
}

// Offer has the routes under /v1/limits and /v1/proofs answered. It is called before Register.
func (a *API) Offer(l Limits, p Proofs) { a.limits, a.proofs = l, p }

// Limit bounds the requests that come with public keys. It is called before Register.
func (a *API) Limit(r Requests) { a.requests = r }

// New makes the API for the apps that hold the keys.
func New(codes Codes, keys Keys, logger *slog.Logger) *API {
	a := &API{codes: codes, logger: logger, now: time.Now}
	a.keys.Store(accept(keys))
	return a
}

// accepted are the keys with what every request asks of them.
type accepted struct {
	Keys
	origins []string // of all of them
}

func accept(keys Keys) *accepted { return &accepted{keys, keys.origins()} }

// Keys are those that are accepted now.
func (a *API) Keys() Keys { return a.keys.Load().Keys }

// SetKeys changes the keys that are accepted from now on. Requests under way end as they began, and of a key that stays it
// stays known when it was used.
func (a *API) SetKeys(keys Keys) {
	for _, k := range keys {
		for _, was := range a.Keys() {
			if k.App == was.App && k.ID == was.ID && k.SHA256 == was.SHA256 {
				k.used.Store(was.used.Load())
			}
		}
	}
	a.keys.Store(accept(keys))
}

// Register adds the routes. Their names and answers are a contract: see DESIGN.md, section 3.
func (a *API) Register(e *echo.Echo) {
	a.allowOrigins(e)
	// Not a group: echo gives a group with middleware catch-all routes, and a wrong method would become a 404.
	for _, r := range a.routes() {
		e.Add(r.method, r.path, a.authenticate(r.scope, r.handler))
	}
}

// route is an operation with the scope that its key needs.
type route struct {
	method, path string
	scope        Scope
	handler      echo.HandlerFunc
}

func (a *API) routes() []route {
	return []route{
		{http.MethodPost, "/v1/verifications", ScopeSend, a.send},
		{http.MethodGet, "/v1/verifications/:id", ScopeRead, a.get},
		{http.MethodPost, "/v1/verifications/:id/check", ScopeCheck, a.check},
		{http.MethodPost, "/v1/verifications/:id/cancel", ScopeSend, a.cancel},
		{http.MethodPost, "/v1/verifications/check", ScopeCheck, a.checkNamed},
		{http.MethodPost, "/v1/proofs/redeem", ScopeCheck, a.redeem},
		{http.MethodPost, "/v1/quota", ScopeRead, a.quota},
		{http.MethodGet, "/v1/channels", ScopeRead, a.channels},
		{http.MethodPost, "/v1/limits/:limit/take", ScopeLimit, a.limit(limits.Take)},
		{http.MethodPost, "/v1/limits/:limit/peek", ScopeLimit, a.limit(limits.Peek)},
		{http.MethodPost, "/v1/limits/:limit/record", ScopeLimit, a.limit(limits.Record)},
	}
}
