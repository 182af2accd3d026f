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

// A client's own ID has minLength to maxLength characters. minLength is more than the 15 digits of
// the longest phone number (E.164).
const (
	minLength       = 16
	maxLength       = 64
	maxLoggedLength = 128 // bytes of an X-Request-Id that is logged, but does not become the request's ID
	minPhoneDigits  = 7   // the fewest digits of an international phone number
)

// requestContext carries the attributes of a request's log lines. It implements context.Context
// itself, to save an allocation.
type requestContext struct {
	context.Context
	id, trace string
	claimed   string // the client's own ID, which AdoptRequestID makes the request's; "": none

	mu    sync.Mutex
	notes []slog.Attr
	room  [3]slog.Attr // the array behind notes for up to three of them, so that app, key and send need no allocation
}

type contextKey struct{}

func (r *requestContext) Value(name any) any {
	if name == (contextKey{}) {
		return r
	}
	return r.Context.Value(name)
}

// WithRequestID returns a context with a new ID for the request, a UUID of version 7 (RFC 9562).
// The console's search uses the time in the UUID.
//
// AdoptRequestID may later replace it with the client's own ID: the header X-Request-Id, if that
// has 16 to 64 letters, digits, "-", "_" and ".", and otherwise the trace ID of the header
// traceparent (W3C Trace Context, section 3.2).
//
// An X-Request-Id that does not become the request's ID may still be logged, as client_request_id,
// if isLoggable allows it.
func WithRequestID(ctx context.Context, requestIDHeader, traceparentHeader string) (_ context.Context, id string) {
	// NewV7 fails only without randomness, and in that case Go has already ended the process.
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

const clientIDName = "client_request_id"

// AdoptRequestID makes a valid ID of the client the ID of the request, and returns the request's
// ID. Call it before any work on the request, and only for a client with a valid secret. Otherwise
// a stranger could give the same ID to thousands of requests and hide a request among them.
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

// IsRequestID reports whether a request may have this ID; see WithRequestID.
func IsRequestID(id string) bool {
	return len(id) >= minLength && len(id) <= maxLength && hasOnlyAlphanumericsAnd(id, "-_.")
}

// isLoggable reports whether a client's text reveals neither an e-mail address nor a phone number,
// such as "tel:0049151…". It may have at most 128 characters, which may be letters, digits and the
// marks "-_.=;:/", and it needs a letter. Each part between the marks "=;:/" needs a letter if it
// has seven or more characters.
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

// traceID returns "" if the header is missing or invalid.
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

// RequestID returns the ID of the request that ctx belongs to, or "" if there is none.
func RequestID(ctx context.Context) string {
	if r, ok := ctx.Value(contextKey{}).(*requestContext); ok {
		return r.id
	}
	return ""
}

// AddAttrs adds attributes to the request's access line, if ctx belongs to a request. Never add a
// recipient, or an ID that gives access.
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

// AddRequestID returns a logger that adds the request's ID to each line, and the trace ID if it
// differs. It finds the request in the line's context.
func AddRequestID(l *slog.Logger) *slog.Logger {
	if _, done := l.Handler().(logHandler); done {
		return l
	}
	return slog.New(logHandler{l.Handler()})
}

type logHandler struct{ slog.Handler }

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

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
