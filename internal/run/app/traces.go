package app

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/traces"
	"sendcode/quota"
)

const (
	// spanExportWait bounds the export of the last spans at a stop, after requests and sends have
	// ended. Operators allow a stop 30 s in addition to Config.Drain. The sum of spanExportWait,
	// shutdownWait and outbox.MaxStopWait is below 30 s.
	spanExportWait = 5 * time.Second
	exportLogEvery = time.Minute
	// maxLoggedCause is in bytes. The cause may quote the collector's answer.
	maxLoggedCause = 300
)

// openTraces opens the traces if the environment requests them. It is the first step of the start,
// so the traces are closed last, and export the spans that other parts make while they close.
func (a *App) openTraces(ctx context.Context) error {
	lines := logs.Throttle{Every: exportLogEvery}
	notExported := func(err error) {
		if n, due := lines.Add("spans", time.Now()); due {
			cause := err.Error()
			a.logger.Info("spans not exported: the service goes on without them", "count", n, "error",
				cause[:min(len(cause), maxLoggedCause)])
		}
	}
	a.traces = traces.Open(ctx, Version(), a.logger, notExported)
	if a.traces == nil {
		return nil
	}
	a.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), spanExportWait)
		defer cancel()
		if err := a.traces.Close(ctx); err != nil {
			notExported(err)
		}
		return nil // the stop succeeds without the collector
	})
	return nil
}

func (a *App) traceRequests(h http.Handler) http.Handler {
	if a.traces == nil {
		return h
	}
	return a.traces.Handler(h)
}

// traceRoute adds the route, the request ID and the app to the request's span, after the handler
// has run: only then are they known. It is used only if there are traces.
func traceRoute(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		ctx, app := c.Request().Context(), ""
		for _, note := range logs.Attrs(ctx) {
			if note.Key == "app" {
				app = note.Value.String()
			}
		}
		traces.AnnotateRequest(ctx, c.Path(), logs.RequestID(ctx), app)
		return err
	}
}

func (a *App) connectionTracers() []pgx.QueryTracer {
	if a.traces == nil {
		return nil
	}
	return []pgx.QueryTracer{a.traces.PostgresTracer()}
}

func (a *App) traceCore(p core.Dependencies) core.Dependencies {
	if a.traces != nil {
		p.Limiter, p.Tracer = tracedLimiter{p.Limiter, a.traces}, a.traces
	}
	return p
}

// tracedLimiter adds a span to each decision of the limiter that is part of a trace.
type tracedLimiter struct {
	gates.Limiter
	traces *traces.Traces
}

// Unwrap lets gates.InProcess look at the wrapped limiter.
func (l tracedLimiter) Unwrap() gates.Limiter { return l.Limiter }

func (l tracedLimiter) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	ctx = l.traces.BeginCall(ctx)
	defer l.traces.EndCall(ctx, func() string { return "limiter take" })
	return l.Limiter.Take(ctx, r)
}

func (l tracedLimiter) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	ctx = l.traces.BeginCall(ctx)
	defer l.traces.EndCall(ctx, func() string { return "limiter peek" })
	return l.Limiter.Peek(ctx, r)
}
