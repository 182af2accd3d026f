package server

import (
	"context"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/fault"
)

type connKey struct{}

// withConn adds a request's connection to its context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// refuseLeft is middleware that refuses a POST whose client has closed its connection before it was read: the process stood still, and no caller
// waits for the answer any more. A client that closes its connection in one direction only is taken for one that has left. net/http
// notices it too, but only once the handler runs.
func refuseLeft(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.Method == http.MethodPost && hasLeft(conn) {
			return fault.Unavailable
		}
		return next(c)
	}
}
