package server

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// PassedListener is a port that another process has opened and keeps open, such as systemd. The end
// of accepting must not change the port: shutdown(2) would close it for all.
type PassedListener struct{ *net.TCPListener }

// Accept implements net.Listener. After EndAccepting it fails.
func (p PassedListener) Accept() (net.Conn, error) {
	conn, err := p.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed // http.Server would try again
	}
	return conn, err
}

func (p PassedListener) endAccepting() (ended bool) { return p.SetDeadline(time.Unix(1, 0)) == nil }

// UnreadConns are a server's accepted connections on which no handler has begun to answer a request
// that is expected: new ones, and those of which a request's head has been read.
type UnreadConns struct {
	IncludeIdle bool // also idle ones: Shutdown would close one on which the next request is already under way
	conns       sync.Map
}

// UnreadWait is the longest time that Wait waits: a browser opens connections that it may not use.
var UnreadWait = time.Second

// Changed implements http.Server's ConnState: a new or active connection, and an idle one if IncludeIdle is
// set, is unread until MarkRead takes it out.
func (u *UnreadConns) Changed(conn net.Conn, state http.ConnState) {
	if state == http.StateNew || state == http.StateActive || state == http.StateIdle && u.IncludeIdle {
		u.conns.Store(conn, true)
	} else {
		u.conns.Delete(conn)
	}
}

// MarkRead is middleware that takes a request's connection out of the set of unread ones.
func (u *UnreadConns) MarkRead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.conns.Delete(r.Context().Value(connKey{}))
		next.ServeHTTP(w, r)
	})
}

// Wait waits until there are no such connections, at most UnreadWait.
func (u *UnreadConns) Wait() {
	for until := time.Now().Add(UnreadWait); time.Now().Before(until); <-time.After(time.Millisecond) {
		left := false
		u.conns.Range(func(any, any) bool { left = true; return false })
		if !left {
			return
		}
	}
}
