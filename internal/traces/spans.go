package traces

import (
	"context"
	"net/http"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	noMetrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"sendcode/internal/store"
)

// Handler returns h with a span for each request, but those of probes and metrics. The span belongs
// to the trace that the header traceparent names (W3C Trace Context), without the caller's
// tracestate.
func (t *Traces) Handler(h http.Handler) http.Handler {
	return otelhttp.NewHandler(h, "request", otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(noMetrics.NewMeterProvider()),
		otelhttp.WithPropagators(traceparentOnly{}), otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/livez" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics"
		}))
}

// Request notes on the request's span its route's template, its ID, and the app that asks; empty:
// not known.
func Request(ctx context.Context, template, id, by string) {
	span := trace.SpanFromContext(ctx)
	for _, a := range []attribute.KeyValue{route.String(template), requestID.String(id), app.String(by)} {
		if a.Value.AsString() != "" {
			span.SetAttributes(a)
		}
	}
}

// traceparentOnly reads and writes traceparent, not tracestate, in which a caller may write what it
// likes.
type traceparentOnly struct{ propagation.TraceContext }

// Extract implements propagation.TextMapPropagator.
func (p traceparentOnly) Extract(ctx context.Context, from propagation.TextMapCarrier) context.Context {
	ctx = p.TraceContext.Extract(ctx, from)
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, withoutState(s))
	}
	return ctx
}

// Redis adds a span to each trip of the client that is part of a trace.
func (t *Traces) Redis(client redis.UniversalClient) error {
	return redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(childSpansOnly{t.provider}),
		redisotel.WithDBStatement(false))
}

// Postgres returns what adds a span to each trip of a connection that is part of a trace, and one
// to each of its statements.
func (t *Traces) Postgres() pgx.QueryTracer {
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider),
		otelpgx.WithMeterProvider(noMetrics.NewMeterProvider()),
		otelpgx.WithDisableSQLStatementInAttributes())
}

// childSpansOnly starts no trace: trips of background work, such as probes, would each be one.
type childSpansOnly struct{ trace.TracerProvider }

// Tracer implements trace.TracerProvider.
func (p childSpansOnly) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return childTracer{p.TracerProvider.Tracer(name, options...)}
}

type childTracer struct{ trace.Tracer }

// Start implements trace.Tracer.
func (t childTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context,
	trace.Span) {
	if span := trace.SpanFromContext(ctx); !span.IsRecording() {
		return ctx, trace.SpanFromContext(context.Background()) // records nothing, and its end ends no other
	}
	return t.Tracer.Start(ctx, name, options...)
}

// Began begins the span of a call that is part of a trace, and Ended ends it; name is called for
// such a call alone. The call may wait and share its trip with others: the trip's span then belongs
// to the call that came first, and the others' spans show the wait.
func (t *Traces) Began(ctx context.Context) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	ctx, _ = t.tracer.Start(ctx, "call")
	return ctx
}

// Ended ends the span that Began began, with the context that it returned, and names it.
func (t *Traces) Ended(ctx context.Context, name func() string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetName(name())
		span.End()
	}
}

// BeginAttempt begins the trace of an attempt to deliver a send. It is one of its own, since
// another process may make the attempt, or the same one much later; the send's request ID leads to
// the request. It implements outbox.Tracer, with EndAttempt.
func (t *Traces) BeginAttempt(ctx context.Context, s store.Send) context.Context {
	ctx, _ = t.tracer.Start(ctx, "attempt", trace.WithNewRoot(),
		trace.WithAttributes(requestID.String(s.RequestID), app.String(s.App),
			channel.String(string(s.Channel)), attempt.Int(s.Attempt)))
	return ctx
}

// EndAttempt ends the trace with the send's status and the reason.
func (t *Traces) EndAttempt(ctx context.Context, s store.Status, why string) {
	end(ctx, string(s), why, s == store.Failed || s == store.Unknown)
}

// Offered adds the span of a message's offer to a mail server or carrier to its attempt's trace,
// after the offer. to is host:port or the carrier's name, class "accepted" or the class of the
// failure.
func (t *Traces) Offered(ctx context.Context, to, class string, failed bool, took time.Duration) {
	now := time.Now()
	_, span := t.tracer.Start(ctx, "offer", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(now.Add(-took)),
		trace.WithAttributes(provider.String(to), outcome.String(class)))
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(now))
}

// BeginEvent begins the trace of an attempt to deliver an event to an app's webhook. It implements
// webhook.Tracer, with EndEvent.
func (t *Traces) BeginEvent(ctx context.Context, e store.AppEvent) context.Context {
	ctx, _ = t.tracer.Start(ctx, "webhook", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			app.String(e.App), event.String(e.Type), attempt.Int(e.Attempt)))
	return ctx
}

// EndEvent ends the trace with the answer: a status, or the kind of failure.
func (t *Traces) EndEvent(ctx context.Context, answer string, failed bool) {
	end(ctx, answer, "", failed)
}

func end(ctx context.Context, word, why string, failed bool) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(outcome.String(word))
	if why != "" {
		span.SetAttributes(reason.String(why))
	}
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
