// Package api serves the HTTP API under /v1, which docs/openapi.yaml describes. It parses requests,
// calls the use cases and writes their answers.
//
// API has the routes for callers with an API key. The files providers.go, receipts.go and hooks.go
// have those for mail providers, carriers and auth servers. All are registered on the echo instance
// of package server.
package api

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/server"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/store"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// CodeService has the use cases for codes. Implementation: verification.Service.
type CodeService interface {
	Send(ctx context.Context, ask verification.Request) (verification.Answer, error)
	Get(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
	Quota(ctx context.Context, c verification.Caller, channel, to, purpose string) (verification.Answer, error)
	Check(ctx context.Context, c verification.Caller, id, code string) (verification.CheckResult, error)
	CheckByRecipient(ctx context.Context, ask verification.Request, code string) (verification.CheckResult, error)
	Cancel(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
	Report(ctx context.Context, c verification.Caller, id, outcome string) (store.Verification, error)
	ReportByRecipient(ctx context.Context, ask verification.Request, outcome string) (store.Verification, error)
	Channels(purpose string) ([]verification.ChannelInfo, error)
	Appearance(caller verification.Caller, purpose, languages string) verification.Appearance
	SendsOverloadError() error
	ChecksOverloadError() error
}

// Services holds the use cases that the API offers.
type Services struct {
	Codes    CodeService
	Limits   *applimits.Service // decides the requests of /v1/limits
	Proofs   *proof.Redeemer    // redeems the proofs of /v1/proofs
	Requests requestLimiter     // bounds requests with public keys; nil: no limit
}

// API has the routes under /v1 that need an API key.
type API struct {
	services Services
	keys     atomic.Pointer[Keys]
}

// requestLimiter bounds the requests of a network. Implementation: *server.RequestLimiter.
type requestLimiter interface {
	Admit(ip netip.Addr) (wait time.Duration, ok bool)
}

// New makes the API with the accepted keys. It registers no routes: call Register.
func New(s Services, keys Keys) *API {
	a := &API{services: s}
	a.keys.Store(&keys)
	return a
}

// Keys returns the keys of the last call of SetKeys, or those of New.
func (a *API) Keys() Keys { return *a.keys.Load() }

// SetKeys replaces the accepted keys. Requests under way are not affected. If a key is in the old
// and the new set, the time of its last use is kept.
func (a *API) SetKeys(keys Keys) {
	for _, k := range keys {
		for _, was := range a.Keys() {
			if k.App == was.App && k.ID == was.ID && k.SHA256 == was.SHA256 {
				k.used.Store(was.used.Load())
			}
		}
	}
	a.keys.Store(&keys)
}

// Register adds the routes and the CORS middleware. The paths and responses are a public contract.
// docs/openapi.yaml describes them.
func (a *API) Register(e *echo.Echo) {
	a.UseCORS(e)
	// The routes do not form an echo group. A group with middleware gets catch-all routes, and then
	// a wrong method would get a 404.
	for _, r := range a.routes() {
		e.Add(r.method, r.path, a.authenticate(r))
	}
}

// handler answers a request of a caller whose key was accepted.
type handler func(c echo.Context, who verification.Caller) error

// route is an operation, with the scope that a key needs for it.
type route struct {
	method, path      string
	scope             KeyScope
	handler           handler
	onlySecretKeysMay string // words after "Only secret keys may" in the refusal of a public key; empty: public keys may use the route
	notFoundDetail    string // detail of a 404
	// overloadError returns an error if the service is overloaded. It is called before the
	// request's key and body are read, and the error refuses the request. If overloadError is nil,
	// the route has no such check.
	overloadError func(CodeService) error
}

func (a *API) routes() []route {
	return []route{
		{
			method: http.MethodPost, path: "/v1/verifications", scope: KeyScopeSend, handler: withBody(a.send),
			notFoundDetail: verificationNotFound, overloadError: CodeService.SendsOverloadError,
		},
		{
			method: http.MethodGet, path: "/v1/verifications/:id", scope: KeyScopeRead, handler: a.get,
			notFoundDetail: verificationNotFound,
		},
		{
			method: http.MethodPost, path: "/v1/verifications/:id/check", scope: KeyScopeCheck, handler: withBody(a.check),
			notFoundDetail: verificationNotFound, overloadError: CodeService.ChecksOverloadError,
		},
		{
			method: http.MethodPost, path: "/v1/verifications/:id/cancel", scope: KeyScopeSend, handler: a.cancel,
			notFoundDetail: verificationNotFound,
		},
		{
			method: http.MethodPost, path: "/v1/verifications/check", scope: KeyScopeCheck, handler: withBody(a.checkByRecipient),
			onlySecretKeysMay: "check without an ID", notFoundDetail: pendingNotFound, overloadError: CodeService.ChecksOverloadError,
		},
		{
			method: http.MethodPost, path: "/v1/verifications/:id/outcome", scope: KeyScopeCheck, handler: withBody(a.report),
			onlySecretKeysMay: reportPhrase, notFoundDetail: verificationNotFound,
		},
		{
			method: http.MethodPost, path: "/v1/verifications/outcome", scope: KeyScopeCheck, handler: withBody(a.reportByRecipient),
			onlySecretKeysMay: reportPhrase, notFoundDetail: reportNotFound,
		},
		// A public key may not redeem proofs. Browsers have the public key and also the proofs. The
		// answer to a redemption contains the whole address, which a browser must not get.
		{
			method: http.MethodPost, path: "/v1/proofs/redeem", scope: KeyScopeCheck, handler: withBody(a.redeem),
			onlySecretKeysMay: "redeem proofs",
		},
		{
			method: http.MethodPost, path: "/v1/quota", scope: KeyScopeRead, handler: withBody(a.quota),
			onlySecretKeysMay: "ask for a recipient's quota",
		},
		{method: http.MethodGet, path: "/v1/channels", scope: KeyScopeRead, handler: a.channels},
		a.limitRoute(applimits.Take),
		a.limitRoute(applimits.Peek),
		a.limitRoute(applimits.Record),
	}
}

func (a *API) limitRoute(o applimits.Operation) route {
	return route{
		method: http.MethodPost, path: "/v1/limits/:limit/" + string(o), scope: KeyScopeLimit, handler: withBody(a.limitHandler(o)),
		onlySecretKeysMay: useLimitsPhrase, notFoundDetail: limitNotFound,
	}
}

// These are values of route.onlySecretKeysMay. Browsers may not use these routes, because the
// caller chooses which events are counted, or which code gets an outcome.
const (
	useLimitsPhrase = "use limits"
	reportPhrase    = "report outcomes"
)

// These are values of route.notFoundDetail.
const (
	verificationNotFound = "There is no verification of this ID for this key: it is not known, belongs to another app or caller, or was erased."
	pendingNotFound      = "No code can be checked by this channel, recipient, purpose and session. " +
		"Check the code at /v1/verifications/{id}/check with the id of the 202, or send the same session in both requests. " +
		"Without either, only a code that was asked for with trust known is found, until it is used or has expired."
	reportNotFound = "No code that you check was sent for this channel, recipient and purpose in the last 25 hours."
	limitNotFound  = "No limit of this name is configured."
)

// withBody returns a handler that decodes the JSON body for next.
func withBody[B any](next func(c echo.Context, who verification.Caller, body B) error) handler {
	return func(c echo.Context, who verification.Caller) error {
		var body B
		if err := server.ReadJSON(c, &body); err != nil {
			return err
		}
		return next(c, who, body)
	}
}

// writeJSONWithRateLimit writes the body with status 200. It writes the states of the rules to the
// RateLimit headers.
func writeJSONWithRateLimit(c echo.Context, d quota.Decision, body any) error {
	if err := quotahttp.SetRateLimit(c.Response().Header(), d); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, body)
}
