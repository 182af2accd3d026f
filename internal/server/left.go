package server

import (
	"context"
	"net"
	"net/http"

	"sendcode/internal/fault"
	"sendcode/internal/peek"
)

type connKey struct{}

// withConn adds a request's connection to its context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// errLeft returns fault.Unavailable for a POST whose client has closed its connection before it was
// read: the process stood still, and no caller waits for the answer any more. A client that closes
// its connection in one direction only is taken for one that has left. net/http notices it too, but
// only once the handler runs. It is no middleware of its own, since echo allocates for each.
func errLeft(r *http.Request) error {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.Method == http.MethodPost &&
		peek.StateOf(conn) == peek.Ended {
		return fault.Unavailable
	}
	return nil
}
