package server

import (
	"context"
	"net"
	"net/http"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/sockets"
)

type connKey struct{}

// withConn adds a request's connection to the request's context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// errIfClientLeft returns fault.Unavailable for a POST if its client closed the connection before
// the request was read. For example, the process may have stood still; then no caller waits for the
// answer. A client that closed only its sending side counts as gone, too. net/http notices a closed
// connection only when the handler runs. accessLog calls errIfClientLeft, since a middleware of its
// own would cost an allocation in echo.
func errIfClientLeft(r *http.Request) error {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.Method == http.MethodPost &&
		sockets.StateOf(conn) == sockets.Ended {
		return fault.Unavailable
	}
	return nil
}
