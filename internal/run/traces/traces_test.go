package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// keepingExporter ignores Shutdown, which would delete the exported spans.
type keepingExporter struct{ *tracetest.InMemoryExporter }

func (keepingExporter) Shutdown(context.Context) error { return nil }

// newTestTraces returns traces, and a function that closes them and returns the exported spans.
func newTestTraces(t *testing.T) (*Traces, func() tracetest.SpanStubs) {
	t.Helper()
	out := keepingExporter{tracetest.NewInMemoryExporter()}
	traces := newTraces(t.Context(), out, "test")
	return traces, func() tracetest.SpanStubs {
		t.Helper()
		servertest.OK(t, traces.Close(t.Context()))
		return out.GetSpans()
	}
}

// No exported span contains the canary, which is in all data of the request, even if the libraries
// for Redis and Postgres record more than the service lets them.
func TestSpansHaveNoCanary(t *testing.T) {
	const canary = "ana.maria.canary@example.com"
	traces, exported := newTestTraces(t)
	client := servertest.Redis(t).Client(t)
	if err := redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(traces.provider),
		redisotel.WithDBStatement(true)); err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(servertest.Postgres(t).NewDatabase(t))
	servertest.OK(t, err)
	config.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(traces.provider), otelpgx.WithIncludeQueryParameters(),
		otelpgx.WithFullSQLInSpanName())
	conn, err := pgx.ConnectConfig(t.Context(), config)
	servertest.OK(t, err)
	defer conn.Close(context.Background())
	h := traces.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = client.Set(r.Context(), "sendcode:"+canary, canary, 0)
		_, _ = conn.Exec(r.Context(), "SELECT $1::text, '"+canary+"'", canary)
		_, _ = conn.Exec(r.Context(), "SELECT $1::int / 0", 1)
		_, span := traces.tracer.Start(r.Context(), "attempt 123456",
			trace.WithLinks(trace.LinkFromContext(r.Context(), appKey.String(canary))))
		span.RecordError(errors.New(canary))
		span.SetStatus(codes.Error, canary)
		span.End()
	}))
	r := httptest.NewRequest(http.MethodPost, "/v1/verifications/"+canary+"/check?to="+canary, strings.NewReader(canary))
	r.Header.Set("User-Agent", canary)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	r.Header.Set("Tracestate", "ana="+strings.ReplaceAll(canary, "@", "."))
	r.Host = canary
	h.ServeHTTP(httptest.NewRecorder(), r)
	spans := exported()
	if err := (redactingExporter{}).ExportSpans(t.Context(), nil); err == nil {
		t.Error("a panic in the exporter's goroutine is survived without an error")
	}
	if said := fmt.Sprintf("%+v", spans); len(spans) < 5 || strings.Contains(said, "canary") || strings.Contains(said, "123456") {
		t.Errorf("of %d spans: %s", len(spans), said)
	}
	failed := false
	for _, s := range spans {
		failed = failed || s.Status.Code == codes.Error
		if s.Name != "redis.dial" && s.SpanContext.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("%s is in the trace %s", s.Name, s.SpanContext.TraceID())
		}
	}
	if !failed {
		t.Error("no span says that a statement failed")
	}
}

// The name of a request's span has the method and the route, and not the path of the request. The
// span has the request's ID and app. Probes and metrics are in no trace.
func TestSpansOfRequests(t *testing.T) {
	traces, exported := newTestTraces(t)
	h := traces.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			AnnotateRequest(r.Context(), "/v1/verifications/:id", "01234567-0123-0123", "shop")
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	for _, ask := range []string{"GET /v1/verifications/123456", "FETCH /other", "GET /livez", "GET /readyz", "GET /metrics"} {
		method, path, _ := strings.Cut(ask, " ")
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	var got []string
	for _, s := range exported() {
		line := s.Name
		for _, a := range s.Attributes {
			if a.Key != methodKey && a.Key != routeKey {
				line += " " + a.Value.String()
			}
		}
		got = append(got, line)
	}
	servertest.Same(t, "spans", strings.Join(got, "\n"), "GET /v1/verifications/:id 01234567-0123-0123 shop 404\n_OTHER 404")
}

// Round trips and calls of background work begin no trace, and neither do those of a request whose
// traceparent is not sampled.
func TestCallsThatAreInNoTrace(t *testing.T) {
	traces, exported := newTestTraces(t)
	client := servertest.Redis(t).Client(t)
	servertest.OK(t, traces.TraceRedis(client))
	work := func(ctx context.Context) {
		if err := client.Ping(ctx).Err(); err != nil {
			t.Error(err)
		}
		ctx = traces.BeginCall(ctx)
		traces.EndCall(ctx, func() string { t.Error("a name is asked for without a trace"); return "" })
	}
	work(t.Context())
	h := traces.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { work(r.Context()) }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	h.ServeHTTP(httptest.NewRecorder(), r)
	ended := traces.BeginCall(traces.StartAttemptTrace(t.Context(), store.Send{}))
	traces.EndCall(ended, func() string { return "database begin" })
	traces.EndCall(ended, func() string { return "database begin again" })
	var names []string
	for _, s := range exported() {
		names = append(names, s.Name)
	}
	servertest.Same(t, "spans", fmt.Sprint(names), "[database begin]")
}

// Requests that an attempt sends belong to the attempt's trace, not to the trace of the request
// that asked for the send.
func TestStartAttemptTrace(t *testing.T) {
	traces, exported := newTestTraces(t)
	ctx, request := traces.tracer.Start(t.Context(), "request")
	ctx = traces.StartAttemptTrace(ctx, store.Send{RequestID: "01234567-0123-0123", App: "shop", Channel: "email", Attempt: 2})
	out := http.Header{}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(out))
	traces.RecordProviderAttempt(ctx, "mail.example:587", "temporary", true, time.Second)
	traces.EndAttempt(ctx, store.Queued, "temporary_rcpt")
	request.End()
	spans := exported()
	offer, whole, of := spans[0], spans[1], spans[2]
	if took := offer.EndTime.Sub(offer.StartTime); offer.Name != "offer" || took != time.Second ||
		offer.Status.Code != codes.Error || offer.Parent.SpanID() != whole.SpanContext.SpanID() {
		t.Errorf("%+v", offer)
	}
	if whole.Name != "attempt" || whole.Parent.IsValid() || whole.Status.Code != codes.Unset ||
		whole.SpanContext.TraceID() == of.SpanContext.TraceID() {
		t.Errorf("%+v in %+v", whole, of)
	}
	servertest.Same(t, "attributes", fmt.Sprint(whole.Attributes),
		`[{"sendcode.request_id":"01234567-0123-0123"} {"sendcode.app":"shop"} {"sendcode.channel":"email"} `+
			`{"sendcode.attempt":2} {"sendcode.outcome":"queued"} {"sendcode.reason":"temporary_rcpt"}]`)
	servertest.Same(t, "traceparent", out.Get("Traceparent"),
		fmt.Sprintf("00-%s-%s-01", whole.SpanContext.TraceID(), whole.SpanContext.SpanID()))
}

// Nothing is traced unless the standard variables name an exporter or an endpoint. A variable that
// can't be used is reported without its value.
func TestTracesAreOnByTheStandardVariablesAlone(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c"
	type configured struct {
		on      bool
		problem string
	}
	for set, want := range map[string]configured{
		"":                                      {},
		"OTEL_SERVICE_NAME=x":                   {},
		"OTEL_TRACES_EXPORTER=none " + endpoint: {},
		"OTEL_TRACES_EXPORTER=otlp":             {on: true},
		endpoint:                                {on: true},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c:4318/v1/traces": {on: true},
		"OTEL_SDK_DISABLED=True " + endpoint:                          {},
		"OTEL_SDK_DISABLED=1 " + endpoint:                             {on: true},
		"OTEL_TRACES_EXPORTER=zipkin " + endpoint:                     {problem: "OTEL_TRACES_EXPORTER is neither otlp nor none"},
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc " +
			endpoint: {problem: "OTEL_EXPORTER_OTLP_PROTOCOL is neither http/protobuf nor http/json"},
		"OTEL_EXPORTER_OTLP_ENDPOINT=user:secret@c:4318":        {problem: "OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=c:4318 " + endpoint: {problem: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no http or https URL"},

		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json " + endpoint: {on: true},
	} {
		var got configured
		got.on, got.problem = exporterConfigured(func(name string) string {
			for entry := range strings.FieldsSeq(set) {
				if value, ok := strings.CutPrefix(entry, name+"="); ok {
					return value
				}
			}
			return ""
		})
		servertest.Same(t, set, got, want)
	}
}

// Bad variables don't stop the start, and no log line shows their values.
func TestOpenWithBadVariables(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
		"OTEL_EXPORTER_OTLP_HEADERS":  "authorization: Bearer canary", "OTEL_EXPORTER_OTLP_TIMEOUT": "canary",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "/canary", "OTEL_TRACES_SAMPLER": "canary",
		"OTEL_RESOURCE_ATTRIBUTES": "canary,a=%zzcanary", "OTEL_BSP_MAX_QUEUE_SIZE": "-canary",
	} {
		t.Setenv(name, value)
	}
	var lines bytes.Buffer
	traces := Open(t.Context(), "test", slog.New(slog.NewTextHandler(&lines, nil)),
		func(err error) { t.Errorf("a failed export: %v", err) })
	if traces == nil {
		t.Fatalf("no traces: %s", &lines)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = traces.Close(ctx)
	said := lines.String()
	for _, line := range []string{"parse headers", "unsupported sampler", "invalid URL escape", "OTEL_RESOURCE_ATTRIBUTES and"} {
		if !strings.Contains(said, "OpenTelemetry: "+line) {
			t.Errorf("the log lacks %q", line)
		}
	}
	if strings.Contains(said, "canary") {
		t.Errorf("the log: %s", said)
	}
}

// unreachable is an exporter whose collector does not answer.
type unreachable struct{ keepingExporter }

func (unreachable) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("dial: refused")
}

// Only the error of an export counts as one, and its text is whole.
func TestErrorHandlerTellsExportsApart(t *testing.T) {
	var lines bytes.Buffer
	var failed []string
	handle := errorHandler(slog.New(slog.NewTextHandler(&lines, nil)), func(err error) { failed = append(failed, err.Error()) })
	for _, err := range []error{
		redactingExporter{unreachable{}}.ExportSpans(t.Context(), nil),
		errors.New("parsing sampler argument: canary"), errors.New(`invalid URL escape "%canary"`), errors.New("no colon"),
	} {
		handle(err)
	}
	servertest.Same(t, "failed exports", fmt.Sprint(failed), "[dial: refused]")
	if said := lines.String(); strings.Contains(said, "canary") || strings.Count(said, "OpenTelemetry: ") != 3 {
		t.Errorf("the log: %s", said)
	}
}
