// Package logs has the common parts of all log lines:
//
//   - the ID of the HTTP request, which is also in the access log and in the database's row of the
//     send
//   - a limit for repeated log lines about one event
//   - the section of docs/runbooks.md that a warning or an error names
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

// Limits for an ID that a client sends, in characters. A phone number has fewer than 16 characters,
// so a phone number is never a valid ID.
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
	room  [3]slog.Attr // the array of the first three notes, so that the attributes app, key and send need no allocation
}

type contextKey struct{}

// Value implements context.Context.
func (r *requestContext) Value(name any) any {
	if name == (contextKey{}) {
		return r
	}
	return r.Context.Value(name)
}

// WithRequestID returns a context with a new ID for the request, a UUID of version 7 (RFC 9562).
// The console's search uses the time in the UUID.
//
// AdoptRequestID may later replace the new ID with the client's own ID. The client's ID is the
// header X-Request-Id, if this header has 16 to 64 characters: letters, digits, "-", "_" and ".".
// If it has not, the client's ID is the trace ID of the header traceparent (W3C Trace Context,
// section 3.2).
//
// If the header X-Request-Id does not become the request's ID, its text may still be logged, as
// client_request_id. isLoggable decides this: the text must not reveal an address or a phone
// number. It may have at most 128 characters: letters, digits, and the marks "-", "_", ".", "=",
// ";", ":" and "/". It must contain a letter. The marks "=", ";", ":" and "/" split the text into
// parts, and each part with seven or more characters must contain a letter.
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

// clientIDName is the name of the attribute for a client's ID that did not become the ID of the
// request.
const clientIDName = "client_request_id"

// AdoptRequestID makes the client's own ID the ID of the request, if the client sent a valid ID.
// AdoptRequestID returns the ID of the request. Call AdoptRequestID before any work on the request,
// and only for a client with a valid secret. Otherwise a stranger could give the same ID to
// thousands of requests and hide a request among them.
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

// isLoggable reports whether a client's text may be logged although the text is not the ID of the
// request. A loggable text must not be an e-mail address or a number. It must also not contain a
// phone number, so "tel:0049151…" is not loggable.
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

// hasOnlyAlphanumericsAnd reports whether a text has only ASCII letters, ASCII digits and
// characters in marks.
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

// AddAttrs adds attributes to the request's access line. If ctx belongs to no request, AddAttrs
// does nothing. Never add a recipient, or an ID that gives access.
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

// AddRequestID returns a logger that adds the request's ID to each line. If the request's trace ID
// differs from this ID, the logger also adds the trace ID. The logger finds the request in the
// line's context.
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
