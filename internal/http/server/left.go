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
// the request was read. For example, the process was suspended for so long that the caller no
// longer waits for the answer. A client that closed only its sending side is treated in the same
// way. net/http would notice the closed connection only while the handler runs, that is, after its
// work has begun. accessLog calls errIfClientLeft, because a separate middleware would cost an
// allocation in echo.
func errIfClientLeft(r *http.Request) error {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.Method == http.MethodPost &&
		sockets.StateOf(conn) == sockets.Ended {
		return fault.Unavailable
	}
	return nil
}
