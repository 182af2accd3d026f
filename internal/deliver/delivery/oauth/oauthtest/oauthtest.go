// Package oauthtest is a token server for tests. It gives client credentials their tokens as RFC 6749 section 4.4 and
// Microsoft's pages say, and misbehaves by script. Only tests import this package.
package oauthtest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/oauth"
)

// Secret is the client's secret, which must be nowhere but in requests.
const Secret = "s3cret~of.the-Client"

// Answer is what the server says to a request, after a while.
type Answer struct {
	Status         int
	Location, Body string
	After          time.Duration
}

// Hangs is an answer that comes later than any client waits.
var Hangs = Answer{Status: 500, After: time.Hour}

// Gives is an answer with a token.
func Gives(token string, seconds int) Answer {
	return Answer{Status: 200, Body: fmt.Sprintf(`{"token_type":"Bearer","expires_in":%d,"ext_expires_in":%[1]d,"access_token":%q}`, seconds, token)}
}

// Refuses is an answer without one, with a number of Microsoft's errors. Its text repeats the secret.
func Refuses(code, number string) Answer {
	return Answer{Status: 400, Body: fmt.Sprintf(`{"error":%q,"error_description":"AADSTS%s: no, %s. Trace ID: 1","error_codes":[%[2]s]}`, code, number, Secret)}
}

// JWT returns a token in Microsoft's form, with these roles.
func JWT(roles string) string {
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"roles":[`+roles+`]}`)) + ".c2ln"
}

// Server is a token server.
type Server struct {
	Client oauth.Client // one that the server knows

	tb      testing.TB
	mu      sync.Mutex
	answers []Answer
	asked   int
}

// New makes a server without a port, for a bubble of testing/synctest; Client dials it. The last answer repeats.
func New(tb testing.TB, answers ...Answer) *Server {
	s := &Server{tb: tb, answers: answers}
	s.Client = oauth.Client{TokenURL: "http://127.0.0.1/tenant/oauth2/v2.0/token", ID: "client", Secret: Secret, Scope: oauth.MicrosoftScope, Dial: s.dial}
	return s
}

// Start makes a server on a loopback port, which ends with the test.
func Start(tb testing.TB, answers ...Answer) *Server {
	tb.Helper()
	s := New(tb, answers...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("oauthtest: %v", err)
	}
	go func() { _ = http.Serve(listener, s) }()
	tb.Cleanup(func() { _ = listener.Close() })
	s.Client.TokenURL, s.Client.Dial = "http://"+listener.Addr().String()+"/tenant/oauth2/v2.0/token", nil
	return s
}

// Source makes a source of the client's tokens, which ends with the test.
func (s *Server) Source() *oauth.Source {
	source := oauth.New(s.Client)
	s.tb.Cleanup(func() { _ = oauth.Sources{"": source}.Close() })
	return source
}

// Answer changes the answers from the next request on.
func (s *Server) Answer(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

// Asked is how many requests came.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := url.Values{"grant_type": {"client_credentials"}, "client_id": {s.Client.ID}, "client_secret": {s.Client.Secret}, "scope": {s.Client.Scope}}
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.PostForm.Encode() != want.Encode() || r.Header.Get("Authorization") != "" {
		s.tb.Errorf("oauthtest: a request that no token server takes: %s %v", r.Method, err)
	}
	s.mu.Lock()
	s.asked++
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	select {
	case <-time.After(a.After):
	case <-r.Context().Done():
		return
	}
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// dial gives the client's end of a net.Pipe that the server answers on.
func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _ = http.Serve(&oneConn{conn: server}, s) }()
	return client, nil
}

// oneConn is a listener with one connection.
type oneConn struct{ conn net.Conn }

// Accept implements net.Listener.
func (l *oneConn) Accept() (conn net.Conn, err error) {
	if l.conn == nil {
		return nil, net.ErrClosed
	}
	conn, l.conn = l.conn, nil
	return conn, nil
}

// Close implements net.Listener.
func (l *oneConn) Close() error { return nil }

// Addr implements net.Listener.
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
