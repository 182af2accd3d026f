// Package api is the surface for programs: it reads JSON, calls the use cases and writes their answers with the
// headers that tell the truth about waiting. It decides nothing itself.
//
// It stands between package server, which it registers on, and package verification. docs/openapi.yaml describes it.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

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
}

// API answers under /v1.
type API struct {
	codes  Codes
	keys   Keys
	logger *slog.Logger
	now    func() time.Time
}

// New makes the API for the apps that hold the keys.
func New(codes Codes, keys Keys, logger *slog.Logger) *API {
	return &API{codes: codes, keys: keys, logger: logger, now: time.Now}
}

// Register adds the routes. Their names and answers are a contract: see DESIGN.md, section 3.
func (a *API) Register(e *echo.Echo) {
	a.allowOrigins(e)
	// Not a group: echo gives a group with middleware catch-all routes, and a wrong method would become a 404.
	e.POST("/v1/verifications", a.send, a.authenticate)
	e.GET("/v1/verifications/:id", a.get, a.authenticate)
	e.POST("/v1/verifications/:id/check", a.check, a.authenticate)
	e.POST("/v1/verifications/:id/cancel", a.cancel, a.authenticate)
	e.POST("/v1/verifications/check", a.checkNamed, a.authenticate)
	e.POST("/v1/quota", a.quota, a.authenticate)
}
