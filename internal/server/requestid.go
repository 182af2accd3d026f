package server

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/labstack/echo/v4"
)

// requestID is middleware that gives each request a random ID. It ignores an ID from the client, which could write anything to the log.
func requestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := rand.Text()
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), requestIDKey{}, id)))
		return next(c)
	}
}

type requestIDKey struct{}

// LogRequestIDs returns a logger that adds the request's ID, from the context, to each line.
func LogRequestIDs(l *slog.Logger) *slog.Logger {
	if _, done := l.Handler().(withRequestID); done {
		return l
	}
	return slog.New(withRequestID{l.Handler()})
}

// withRequestID is a slog.Handler that adds the request's ID.
type withRequestID struct{ slog.Handler }

// Handle implements slog.Handler.
func (h withRequestID) Handle(ctx context.Context, r slog.Record) error {
	if id, ok := ctx.Value(requestIDKey{}).(string); ok {
		r = r.Clone()
		r.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h withRequestID) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withRequestID{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h withRequestID) WithGroup(name string) slog.Handler {
	return withRequestID{h.Handler.WithGroup(name)}
}
