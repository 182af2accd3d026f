// Package api serves the HTTP API under /v1: it reads JSON, calls the use cases and writes their answers, with the RateLimit and
// Retry-After headers.
//
// It registers its routes on package server's echo and calls package verification. docs/openapi.yaml describes the API.
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
	CheckNamed(ctx context.Context, ask verification.Ask, code string) (verification.Checked, error)
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

// Offer sets the services behind /v1/limits and /v1/proofs. Call it before Register.
func (a *API) Offer(l Limits, p Proofs) { a.limits, a.proofs = l, p }

// Limit sets the limiter of requests with public keys. Without a call there is no limit. Call it before Register.
func (a *API) Limit(r Requests) { a.requests = r }

// New makes the API with the accepted keys. It registers no routes: call Offer and Limit, and then Register.
func New(codes Codes, keys Keys, logger *slog.Logger) *API {
	a := &API{codes: codes, logger: logger, now: time.Now}
	a.keys.Store(withOrigins(keys))
	return a
}

// accepted are the accepted keys and their origins.
type accepted struct {
	Keys
	origins []string // of all keys
}

func withOrigins(keys Keys) *accepted { return &accepted{keys, keys.origins()} }

// Keys returns the accepted keys.
func (a *API) Keys() Keys { return a.keys.Load().Keys }

// SetKeys replaces the accepted keys. Requests under way are not affected, and keys that stay keep their time of last use.
func (a *API) SetKeys(keys Keys) {
	for _, k := range keys {
		for _, was := range a.Keys() {
			if k.App == was.App && k.ID == was.ID && k.SHA256 == was.SHA256 {
				k.used.Store(was.used.Load())
			}
		}
	}
	a.keys.Store(withOrigins(keys))
}

// Register adds the routes and the CORS middleware. Paths and responses are a contract: see docs/openapi.yaml.
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
