// Package mailapitest imitates Resend for tests. It has the requests and answers of Resend's API,
// and a [Server] that answers over TLS, correctly or not. Only tests import this package.
package mailapitest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi"
	"sendcode/internal/kit/servertest"
)

// Answer is one answer of a provider.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Mail is a mail that a provider accepted.
type Mail struct {
	To     string
	Send   string            // ID of the send, in the form in which events return it
	Text   string            // subject, text and HTML, decoded
	From   string            // the sender as the person sees it: "Name <addr>"
	Header map[string]string // headers of the mail as it arrives, by their [http.CanonicalHeaderKey]
}

// Outcome is an answer of a provider, and the outcome to which it must lead.
type Outcome struct {
	Answer
	Class delivery.ErrorClass
	Code  string // the code in the row, after the status
}

// Step is a provider's reaction to a request. accept accepts the mail.
type Step func(s *Server, w http.ResponseWriter, accept func())

// Answers returns a step in which the provider gives an answer, and accepts no mail.
func Answers(answer Answer) Step {
	return func(_ *Server, w http.ResponseWriter, _ func()) { answer.write(w) }
}

func (answer Answer) write(w http.ResponseWriter) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, _ = io.WriteString(w, answer.Body)
}

// Accepts is a step in which the provider accepts the mail and says so.
func Accepts(s *Server, w http.ResponseWriter, accept func()) {
	accept()
	accepted.write(w)
}

// Breaks returns a step in which the provider accepts the mail, writes raw bytes, and closes the
// connection.
func Breaks(raw string) Step {
	return func(s *Server, w http.ResponseWriter, accept func()) {
		accept()
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			s.note(err)
			return
		}
		_, _ = rw.WriteString(raw)
		_ = rw.Flush()
		_ = conn.Close()
	}
}

// Stalls is a step in which the provider accepts the mail and does not answer.
func Stalls(s *Server, _ http.ResponseWriter, accept func()) {
	accept()
	<-s.stopped
}

// Server imitates a provider. Safe for concurrent use.
type Server struct {
	tb        testing.TB
	authority *servertest.Authority
	identity  tls.Certificate
	http      http.Server
	addr      string
	stopped   chan struct{}

	mu       sync.Mutex
	steps    []Step
	then     Step
	mails    []Mail
	known    map[string]bool // keys of requests whose mail was accepted
	requests int
	wrong    error
	ends     []net.Conn // both ends of each pipe that Dial made
}

// New makes a provider without a port, to which Dial connects, also in a testing/synctest bubble.
// It ends with the test, or with Stop.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb)
	s.addr = "127.0.0.1:443"
	return s
}

// Start makes a provider on a port of loopback.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(tb, err)
	s.addr = l.Addr().String()
	s.serve(l)
	return s
}

func newServer(tb testing.TB) *Server {
	s := &Server{
		tb: tb, authority: servertest.NewAuthority(tb), stopped: make(chan struct{}),
		known: map[string]bool{}, then: Accepts,
	}
	var err error
	if s.identity, err = tls.LoadX509KeyPair(s.authority.Issue(tb)); err != nil {
		tb.Fatal(err)
	}
	s.http = http.Server{Handler: http.HandlerFunc(s.handle), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	tb.Cleanup(s.Stop)
	return s
}

func (s *Server) serve(l net.Listener) {
	go func() {
		_ = s.http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{s.identity}, MinVersion: tls.VersionTLS12}))
	}()
}

// Stop ends the provider, and fails the test if a request was not as documented.
func (s *Server) Stop() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return
	default:
	}
	close(s.stopped)
	for _, end := range s.ends { // otherwise TLS would wait to write close_notify to a pipe without a reader
		_ = end.Close()
	}
	_ = s.http.Close()
	if s.wrong != nil {
		s.tb.Errorf("a request is not as documented: %v", s.wrong)
	}
}

// Dial returns the client's end of a net.Pipe whose other end the server serves. It ignores the
// address.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return nil, net.ErrClosed
	default:
	}
	s.ends = append(s.ends, near, far)
	s.serve(servertest.OneConn(far))
	return near, nil
}

// URL returns the URL of an account. Its parameter ca is the file of the authority that made the
// server's certificate.
func (s *Server) URL() string {
	query := url.Values{"ca": {s.authority.File}, "tls": {"required"}}
	return (&url.URL{Scheme: mailapi.Scheme, User: url.UserPassword("", resendKey), Host: s.addr, RawQuery: query.Encode()}).String()
}

// Account makes a sender for the provider, with the changes. The sender connects by Dial, even if
// the provider has a port.
func (s *Server) Account(t testing.TB, change ...func(*mailapi.Config)) *mailapi.Client {
	t.Helper()
	config, err := mailapi.ParseURL(s.URL())
	servertest.OK(t, err)
	config.Dial = s.Dial
	for _, c := range change {
		c(&config)
	}
	server, err := mailapi.New(config)
	servertest.OK(t, err)
	return server
}

// Script sets the server's reactions: the steps in first are for the next requests, and the step
// then is for all later requests.
func (s *Server) Script(then Step, first ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps, s.then = first, then
}

// Mails returns the accepted mails, each once, oldest first.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Requests returns how many requests came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *Server) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = errors.Join(s.wrong, err)
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up
	}
	mail, err := Mail{}, error(nil)
	if r.Method+" "+r.URL.Path != "GET /domains" {
		mail, err = readResend(r, body)
	}
	s.note(err)
	s.mu.Lock()
	s.requests++
	step := s.then
	if len(s.steps) > 0 {
		step, s.steps = s.steps[0], s.steps[1:]
	}
	s.mu.Unlock()
	step(s, w, func() { s.accept(r, mail) })
}

// accept stores the mail of a request, unless the request is a repeated one.
func (s *Server) accept(r *http.Request, mail Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if s.known[key] {
		return
	}
	s.known[key] = true
	s.mails = append(s.mails, mail)
}

func want[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
