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

// Handler returns h with a span for each request, except /livez, /readyz and /metrics. The span
// belongs to the trace in the header traceparent (W3C Trace Context); tracestate is dropped.
func (t *Traces) Handler(h http.Handler) http.Handler {
	return otelhttp.NewHandler(h, "request", otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(noMetrics.NewMeterProvider()),
		otelhttp.WithPropagators(traceparentOnly{}), otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/livez" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics"
		}))
}

// AnnotateRequest adds the template of the route, the request ID and the name of the calling app to
// the request's span. It leaves out those that are empty.
func AnnotateRequest(ctx context.Context, template, id, app string) {
	span := trace.SpanFromContext(ctx)
	for _, a := range []attribute.KeyValue{routeKey.String(template), requestIDKey.String(id), appKey.String(app)} {
		if a.Value.AsString() != "" {
			span.SetAttributes(a)
		}
	}
}

// traceparentOnly ignores the header tracestate, in which a caller can send any text.
type traceparentOnly struct{ propagation.TraceContext }

// Extract implements propagation.TextMapPropagator.
func (t traceparentOnly) Extract(ctx context.Context, from propagation.TextMapCarrier) context.Context {
	ctx = t.TraceContext.Extract(ctx, from)
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, withoutTraceState(s))
	}
	return ctx
}

// TraceRedis makes the client add a span for each round trip that belongs to a trace.
func (t *Traces) TraceRedis(client redis.UniversalClient) error {
	return redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(childSpansOnly{t.provider}),
		redisotel.WithDBStatement(false))
}

// PostgresTracer returns a tracer that adds a span for each round trip that belongs to a trace, and
// one for each statement of a batch.
func (t *Traces) PostgresTracer() pgx.QueryTracer {
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider),
		otelpgx.WithMeterProvider(noMetrics.NewMeterProvider()),
		otelpgx.WithDisableSQLStatementInAttributes())
}

// childSpansOnly adds spans to existing traces but begins none. Otherwise each round trip of a job
// or of a health probe would begin a trace of its own.
type childSpansOnly struct{ trace.TracerProvider }

// Tracer implements trace.TracerProvider.
func (c childSpansOnly) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return childTracer{c.TracerProvider.Tracer(name, options...)}
}

type childTracer struct{ trace.Tracer }

// Start implements trace.Tracer.
func (t childTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context,
	trace.Span,
) {
	if span := trace.SpanFromContext(ctx); !span.IsRecording() {
		return ctx, trace.SpanFromContext(context.Background()) // a span that records nothing
	}
	return t.Tracer.Start(ctx, name, options...)
}

// BeginCall begins a span for a call, such as a Take of the limiter, if ctx belongs to a trace.
// EndCall ends the span. If several calls share one round trip, the span of the round trip belongs
// to the trace of the first call. The spans of the other calls show only how long these calls
// waited.
func (t *Traces) BeginCall(ctx context.Context) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	ctx, _ = t.tracer.Start(ctx, "call")
	return ctx
}

// EndCall ends the span in the context that BeginCall returned, and gives it the name that name
// returns. If there is no span, it does not call name.
func (t *Traces) EndCall(ctx context.Context, name func() string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetName(name())
		span.End()
	}
}

// StartAttemptTrace begins a trace for an attempt to deliver a send. This trace is separate from
// the request's trace, because the attempt may be made much later or by another process. Both
// traces have the same request ID. StartAttemptTrace and EndAttempt implement outbox.Tracer.
func (t *Traces) StartAttemptTrace(ctx context.Context, s store.Send) context.Context {
	ctx, _ = t.tracer.Start(ctx, "attempt", trace.WithNewRoot(),
		trace.WithAttributes(requestIDKey.String(s.RequestID), appKey.String(s.App),
			channelKey.String(string(s.Channel)), attemptKey.Int(s.Attempt)))
	return ctx
}

// EndAttempt ends the trace with the send's status and the reason.
func (t *Traces) EndAttempt(ctx context.Context, s store.Status, why string) {
	endSpan(ctx, string(s), why, s == store.Failed || s == store.Unknown)
}

// RecordProviderAttempt adds a span for the transfer of a message to a mail server or carrier,
// which has just ended, to the trace of the attempt. to is host:port or the carrier's name. class
// is the label class of the metric sendcode_delivery_attempt_seconds.
func (t *Traces) RecordProviderAttempt(ctx context.Context, to, class string, failed bool, took time.Duration) {
	now := time.Now()
	_, span := t.tracer.Start(ctx, "offer", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(now.Add(-took)),
		trace.WithAttributes(providerKey.String(to), outcomeKey.String(class)))
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(now))
}

// BeginWebhookAttempt begins the trace of an attempt to deliver an event to an app's webhook.
// BeginWebhookAttempt and EndWebhookAttempt implement webhook.Tracer.
func (t *Traces) BeginWebhookAttempt(ctx context.Context, e store.AppEvent) context.Context {
	ctx, _ = t.tracer.Start(ctx, "webhook", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			appKey.String(e.App), eventKey.String(e.Type), attemptKey.Int(e.Attempt)))
	return ctx
}

// EndWebhookAttempt ends the trace that BeginWebhookAttempt began. answer is the webhook's HTTP
// status, or the kind of failure.
func (t *Traces) EndWebhookAttempt(ctx context.Context, answer string, failed bool) {
	endSpan(ctx, answer, "", failed)
}

func endSpan(ctx context.Context, word, why string, failed bool) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(outcomeKey.String(word))
	if why != "" {
		span.SetAttributes(reasonKey.String(why))
	}
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
