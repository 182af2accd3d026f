package traces

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sendcode/internal/base/panics"
)

// redactingExporter exports spans without data that can contain an address, a code or an ID that
// gives access. Of the attributes it exports only those in exportedKeys, because a new release of a
// library can add others, such as URLs and statements. It also drops events, links, error texts and
// the caller's tracestate.
type redactingExporter struct{ sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter. Error: exportError.
func (r redactingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) (err error) {
	defer func() {
		if err != nil {
			err = exportError{err}
		}
	}()
	defer panics.Recover(panics.Other, func() { err = panics.Err }) // the library calls ExportSpans in a goroutine of its own
	redacted := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		redacted[i] = redactedSpan{s}
	}
	return r.SpanExporter.ExportSpans(ctx, redacted)
}

// These are keys of attributes: first our own, then some of OpenTelemetry's.
const (
	requestIDKey = attribute.Key("sendcode.request_id")
	appKey       = attribute.Key("sendcode.app")
	channelKey   = attribute.Key("sendcode.channel")
	eventKey     = attribute.Key("sendcode.event")
	attemptKey   = attribute.Key("sendcode.attempt")
	providerKey  = attribute.Key("sendcode.provider")
	outcomeKey   = attribute.Key("sendcode.outcome")
	reasonKey    = attribute.Key("sendcode.reason")

	routeKey         = attribute.Key("http.route")
	methodKey        = attribute.Key("http.request.method")
	serverAddressKey = attribute.Key("server.address")
)

// exportedKeys are the keys of the attributes that are exported. Only the request ID among their
// values can be text of the caller's choice. It is exported only if it is valid (logs.IsRequestID),
// and the log has it, too.
var exportedKeys = map[attribute.Key]bool{
	requestIDKey: true, appKey: true, channelKey: true, eventKey: true, attemptKey: true, providerKey: true, outcomeKey: true,
	reasonKey: true,
	routeKey:  true, methodKey: true, "http.response.status_code": true, "error.type": true, serverAddressKey: true, "server.port": true,
	"db.system": true, "db.system.name": true, "db.operation.batch.size": true, "db.redis.num_cmd": true,
	"pgx.sql_state": true,
}

// redactedSpan is a span without the data that redactingExporter drops.
type redactedSpan struct{ sdktrace.ReadOnlySpan }

// Attributes implements sdktrace.ReadOnlySpan.
func (s redactedSpan) Attributes() (all []attribute.KeyValue) {
	for _, a := range s.ReadOnlySpan.Attributes() {
		// the server address of a request is its header Host, which the caller chooses
		chosenByCaller := s.SpanKind() == trace.SpanKindServer && (a.Key == serverAddressKey || a.Key == "server.port")
		if exportedKeys[a.Key] && !chosenByCaller {
			all = append(all, a)
		}
	}
	return all
}

// Name implements sdktrace.ReadOnlySpan. The name of a request's span is the method and the
// template of the route. Any other span is named by this program or by the libraries for Redis and
// Postgres, for example after a command. If such a name has anything but letters, spaces,
// underscores and dots, Name returns the span's kind instead.
func (s redactedSpan) Name() string {
	if s.SpanKind() == trace.SpanKindServer {
		var name [2]string
		for _, a := range s.ReadOnlySpan.Attributes() {
			switch a.Key {
			case methodKey:
				name[0] = a.Value.AsString()
			case routeKey:
				name[1] = a.Value.AsString()
			}
		}
		return strings.TrimSpace(strings.Join(name[:], " "))
	}
	name := s.ReadOnlySpan.Name()
	if strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune(" _.", c)
	}) {
		return s.SpanKind().String()
	}
	return name
}

// SpanContext implements sdktrace.ReadOnlySpan.
func (s redactedSpan) SpanContext() trace.SpanContext {
	return withoutTraceState(s.ReadOnlySpan.SpanContext())
}

// Parent implements sdktrace.ReadOnlySpan.
func (s redactedSpan) Parent() trace.SpanContext { return withoutTraceState(s.ReadOnlySpan.Parent()) }

// Events implements sdktrace.ReadOnlySpan. It returns no events, because the error texts in events
// may quote data of a request.
func (s redactedSpan) Events() []sdktrace.Event { return nil }

// Links implements sdktrace.ReadOnlySpan.
func (s redactedSpan) Links() []sdktrace.Link { return nil }

// Status implements sdktrace.ReadOnlySpan.
func (s redactedSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

func withoutTraceState(s trace.SpanContext) trace.SpanContext {
	return s.WithTraceState(trace.TraceState{})
}
