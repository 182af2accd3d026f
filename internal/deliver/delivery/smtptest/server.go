package smtptest

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sendcode/internal/kit/servertest"
)

// Server follows a [Script]. Safe for concurrent use.
type Server struct {
	tb testing.TB

	mu        sync.Mutex
	script    Script
	authority *servertest.Authority // made with the first script that has TLS
	identity  tls.Certificate
	uses      []int // how often each rule matched
	listener  net.Listener
	addr      string
	conns     map[net.Conn]struct{}
	stopped   chan struct{}
	running   sync.WaitGroup
	record
}

// New makes a server without a listener; use its Dial or Serve.
func New(tb testing.TB, script Script) *Server {
	s := &Server{tb: tb, conns: map[net.Conn]struct{}{}, stopped: make(chan struct{})}
	s.messageLanded = make(chan struct{})
	s.SetScript(script)
	tb.Cleanup(s.Stop)
	return s
}

// Start makes a server on a loopback port that the kernel chooses. The server stops when the test
// ends.
func Start(tb testing.TB, script Script) *Server {
	tb.Helper()
	return StartAt(tb, 0, script)
}

// StartAt is Start on a port that no other server gets, as servertest.FreePort returns it. So the
// server can Restart on it.
func StartAt(tb testing.TB, port int, script Script) *Server {
	tb.Helper()
	s := New(tb, script)
	s.listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return s
}

// SetScript changes the behaviour; the counts of the rules start again at zero. It also applies to
// open connections.
func (s *Server) SetScript(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.uses = script.filled(), make([]int, len(script.Rules))
	if script.TLS == Plain || s.authority != nil {
		return
	}
	var err error
	s.authority = servertest.NewAuthority(s.tb)
	if s.identity, err = tls.LoadX509KeyPair(s.authority.Issue(s.tb)); err != nil {
		s.tb.Fatalf("smtptest: %v", err)
	}
}

// Stop closes the port and every connection, and waits until all are closed.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
	select {
	case <-s.stopped:
	default:
		close(s.stopped)
	}
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Restart listens again, after Stop, on the port of StartAt: a port that the kernel chose may be
// taken by now. The records stay.
func (s *Server) Restart() {
	s.tb.Helper()
	s.locked(func() { s.stopped = make(chan struct{}) })
	s.listen(s.Addr())
}

func (s *Server) listen(addr string) {
	s.tb.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		s.tb.Fatalf("smtptest: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener, s.addr = listener, listener.Addr().String()
	s.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.Serve(conn)
		}
	})
}

// Serve serves a connection in the background.
func (s *Server) Serve(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		_ = conn.Close()
		return
	default:
	}
	s.opened++
	d := &dialogue{server: s, conn: conn, before: len(s.conns), stopped: s.stopped}
	s.conns[conn] = struct{}{}
	s.running.Go(func() {
		d.run()
		s.locked(func() { delete(s.conns, conn) })
		_ = conn.Close()
	})
}

// Dial returns the client's end of a net.Pipe whose other end the server serves. It ignores the
// address.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.Serve(server)
	return client, nil
}

// BlackHole is a host that drops all packets.
const BlackHole = "blackhole.example"

// DialBlackHole returns a Dial that ends only by a timeout, and counts its calls for BlackHole's
// port 587.
func DialBlackHole(dials *atomic.Int32) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if network+" "+address == "tcp "+BlackHole+":587" {
			dials.Add(1)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// Addr returns host:port.
func (s *Server) Addr() (addr string) {
	s.locked(func() { addr = s.addr })
	return addr
}

// URL returns the server's address in the form of SENDCODE_SMTP_URL, with user, password, TLS
// policy and a file with the server's authority.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := url.URL{Scheme: "smtp", Host: s.addr}
	if s.script.Username != "" {
		u.User = url.UserPassword(s.script.Username, s.script.Password)
	}
	query := url.Values{}
	if s.script.OAuth != "" {
		u.User = url.User(s.script.Username)
		query.Set("oauth", s.script.OAuth)
	}
	switch s.script.TLS {
	case Plain:
		query.Set("tls", "none")
	case STARTTLS:
		query.Set("tls", "required")
		query.Set("ca", s.authority.File)
	case Implicit:
		u.Scheme = "smtps"
		query.Set("ca", s.authority.File)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// rule returns the rule for this stage and recipient; a zero rule if none fits.
func (d *dialogue) rule(stage Stage, to string) Rule {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, r := range s.script.Rules {
		if r.Stage != stage || !strings.HasSuffix(to, r.To) || d.before < r.Over {
			continue
		}
		s.uses[n]++
		if s.uses[n] > r.Skip && (r.Times == 0 || s.uses[n] <= r.Skip+r.Times) {
			return r
		}
	}
	return Rule{}
}

// AllOnce fails the test unless the servers have n messages together, each once and at one server
// only.
func AllOnce(t testing.TB, n int, servers ...*Server) {
	t.Helper()
	seen := map[string]int{}
	for _, s := range servers {
		for id, times := range s.ByID() {
			seen[id] += times
		}
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s arrived %d times", id, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d mails arrived", len(seen), n)
	}
}
