// Package logs has the common parts of all log lines: the ID of the HTTP request, which also
// reaches the access line and the send's row; a bound on the lines that repetitions of one event
// cause; and the section of docs/runbooks.md for a warning or an error.
package logs

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Bounds of an ID from a client, in characters. Phone numbers have fewer than 16 characters, so no
// phone number becomes an ID.
const (
	minLength       = 16
	maxLength       = 64
	maxLoggedLength = 128 // of a client's text that is logged and is not the request's ID
	minPhoneDigits  = 7   // of an international phone number
)

// requestContext is the context of an HTTP request, with the attributes of the request's log lines.
// It implements context.Context itself, to save an allocation.
type requestContext struct {
	context.Context
	id, trace string
	claimed   string // the client's own ID, which AdoptRequestID makes the request's; "": none

	mu    sync.Mutex
	notes []slog.Attr
	room  [3]slog.Attr // array of the first three notes, so that app, key and send allocate nothing
}

type contextKey struct{}

// Value implements context.Context.
func (r *requestContext) Value(name any) any {
	if name == (contextKey{}) {
		return r
	}
	return r.Context.Value(name)
}

// WithRequestID returns a context with the request's ID: a new UUID of version 7 (RFC 9562), whose
// time the console's search reads. AdoptRequestID replaces it by the client's own ID. That is the
// header X-Request-Id or, if it is not valid, the trace ID of the header traceparent (W3C Trace
// Context, section 3.2). A header is valid if it has 16 to 64 letters, digits and "-", "_", ".". A
// header that is not adopted is logged as client_request_id, if it has at most 128 characters:
// those above and "=", ";", ":", "/". Between the last four, each part of seven or more characters
// must have a letter.
func WithRequestID(ctx context.Context, requestIDHeader, traceparentHeader string) (_ context.Context, id string) {
	// NewV7 fails only without randomness, with which Go ends the process
	r := &requestContext{Context: ctx, id: uuid.Must(uuid.NewV7()).String(), trace: traceID(traceparentHeader)}
	r.claimed, r.notes = r.trace, r.room[:0]
	if requestIDHeader == "" {
		return r, r.id
	}
	if IsRequestID(requestIDHeader) {
		r.claimed = requestIDHeader
	}
	if isLoggable(requestIDHeader) {
		r.notes = append(r.notes, slog.String(clientIDName, requestIDHeader))
	}
	return r, r.id
}

// clientIDName is the attribute of a client's own ID that is not the request's.
const clientIDName = "client_request_id"

// AdoptRequestID makes the client's own ID the ID of the request, if the client sent a valid one,
// and returns the request's ID. Call it only for a client that has shown a secret, and before any
// work on the request: a stranger could hide requests among thousands with one ID.
func AdoptRequestID(ctx context.Context) (id string) {
	r, ok := ctx.Value(contextKey{}).(*requestContext)
	if !ok {
		return ""
	}
	if r.claimed != "" {
		r.id = r.claimed
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = slices.DeleteFunc(r.notes, func(a slog.Attr) bool {
			return a.Key == clientIDName && a.Value.String() == r.id
		})
	}
	return r.id
}

// IsRequestID reports whether a text may be an ID.
func IsRequestID(id string) bool {
	return len(id) >= minLength && len(id) <= maxLength && hasOnlyAlphanumericsAnd(id, "-_.")
}

// isLoggable reports whether a text of the client may be logged although it is not the request's
// ID. It must not be an e-mail address or a number, and must not name a phone number, as
// "tel:0049151…" does.
func isLoggable(text string) bool {
	isLetter := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	isMark := func(c rune) bool { return strings.ContainsRune("=;:/", c) }
	for part := range strings.FieldsFuncSeq(text, isMark) {
		if len(part) >= minPhoneDigits && !strings.ContainsFunc(part, isLetter) {
			return false
		}
	}
	const quotedAt = "=40" // an at sign in the encoding of mails
	return strings.ContainsFunc(text, isLetter) && !strings.Contains(text, quotedAt) && len(text) <= maxLoggedLength &&
		hasOnlyAlphanumericsAnd(text, "-_.=;:/")
}

// hasOnlyAlphanumericsAnd reports whether a text has only letters and digits of ASCII and these
// marks.
func hasOnlyAlphanumericsAnd(text, marks string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(marks, c) >= 0:
		default:
			return false
		}
	}
	return true
}

// traceID returns the trace ID of a traceparent header; "" if the header is missing or invalid.
func traceID(header string) string {
	if header == "" {
		return ""
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": header})
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

// RequestID returns the ID of the request that ctx belongs to; "" if there is none.
func RequestID(ctx context.Context) string {
	if r, ok := ctx.Value(contextKey{}).(*requestContext); ok {
		return r.id
	}
	return ""
}

// AddAttrs adds attributes to the request's access line. If ctx belongs to no request, it does
// nothing. Never add a recipient or an ID that gives access.
func AddAttrs(ctx context.Context, attrs ...slog.Attr) {
	if r, ok := ctx.Value(contextKey{}).(*requestContext); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, attrs...)
	}
}

// Attrs returns the attributes of the request's access line.
func Attrs(ctx context.Context) []slog.Attr {
	r, ok := ctx.Value(contextKey{}).(*requestContext)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notes
}

// AddRequestID returns a logger that adds to each line the ID of the request in its context, and
// the trace ID if that differs.
func AddRequestID(l *slog.Logger) *slog.Logger {
	if _, done := l.Handler().(logHandler); done {
		return l
	}
	return slog.New(logHandler{l.Handler()})
}

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, line slog.Record) error {
	if r, ok := ctx.Value(contextKey{}).(*requestContext); ok {
		line = line.Clone()
		line.AddAttrs(slog.String("request_id", r.id))
		if r.trace != "" && r.trace != r.id {
			line.AddAttrs(slog.String("trace_id", r.trace))
		}
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
