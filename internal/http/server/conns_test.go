package server

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

// connsRig serves routes on loopback with a ConnTracker.
type connsRig struct {
	*testing.T
	*ConnTracker
	port net.Listener
}

func newConnsRig(t *testing.T, conns *ConnTracker, e *echo.Echo, inherited bool) connsRig {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(t, err)
	if inherited {
		port = InheritedListener{port.(*net.TCPListener)}
	}
	s := &http.Server{Handler: conns.TrackRequestRead(e), ConnState: conns.Changed, ConnContext: withConn}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(conns.Listener(port)) }()
	return connsRig{t, conns, port}
}

// dial connects from the given address of this machine and sends text.
func (r connsRig) dial(from, text string) net.Conn {
	r.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", r.port.Addr().String())
	if err == nil {
		r.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(servertest.Patience)) // so that a missing answer fails the test
		_, err = io.WriteString(conn, text)
	}
	servertest.OK(r, err)
	return conn
}

// await waits until the numbers of open connections, of connections for which a stop waits, and of
// queued connections are the given ones.
func (r connsRig) await(open, unread, queued int) {
	r.Helper()
	servertest.Await(r, fmt.Sprint("connections ", open, unread, queued), func() bool {
		n := r.unread()
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.open) == open && n == unread && r.queued == queued
	})
}

// connAnswer is an answer on a connection. It is zero if the connection closes without one.
type connAnswer struct {
	status     int
	retryAfter string
	closes     bool
	countsNot  bool // the answer says that nothing may have counted
}

// nextAnswer reads the next answer on a connection.
func nextAnswer(conn net.Conn) connAnswer {
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return connAnswer{}
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return connAnswer{
		answer.StatusCode, strings.Join(answer.Header["Retry-After"], ", "), answer.Close,
		strings.Contains(string(body), `"may_have_counted":false`),
	}
}

// When the server stops, a request whose body has not arrived gets a 503, and a connection without
// a request is closed. A request that has been read is answered: its context is not canceled,
// although reads of its connection now fail.
func TestConnTrackerCutsUnreadRequests(t *testing.T) {
	conns := NewConnTracker(0, nil, slog.New(slog.DiscardHandler))
	conns.UnreadWait = servertest.Patience
	e, reached, goOn := New(Config{Logger: slog.New(slog.DiscardHandler)}), make(chan bool, 4), make(chan bool)
	e.POST("/json", func(c echo.Context) error {
		reached <- true
		if err := ReadJSON(c, &sample{}); err != nil {
			return err
		}
		reached <- true
		<-goOn
		if err := c.Request().Context().Err(); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
	e.POST("/none", func(c echo.Context) error { reached <- true; return c.NoContent(http.StatusNoContent) })
	r := newConnsRig(t, conns, e, false)
	const head = " HTTP/1.1\r\nHost: codes\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"
	var all []net.Conn
	for _, text := range []string{
		"POST /json" + head + `{"to":"ana"}`, "POST /json" + head + "{", "POST /none" + head + "{", "POST /js",
		"",
	} {
		all = append(all, r.dial("127.0.0.1", text))
	}
	for range cap(reached) {
		<-reached
	}
	r.await(5, 4, 4)
	r.cut()
	close(goOn)
	for i, want := range []connAnswer{
		{status: 204}, {status: 503, retryAfter: "2", closes: true, countsNot: true}, {status: 204, closes: true}, {}, {},
	} {
		servertest.Same(t, fmt.Sprint("answer ", i), nextAnswer(all[i]), want)
	}
	_, _ = io.WriteString(all[0], "POST /json"+head+`{"to":"ana"}`)
	servertest.Same(t, "a request after the stop", nextAnswer(all[0]), connAnswer{})
}

// A stop waits for at most UnreadWait for a client that does not read its answer.
func TestConnTrackerCutsUntakenAnswers(t *testing.T) {
	conns := NewConnTracker(0, nil, slog.New(slog.DiscardHandler))
	conns.UnreadWait = time.Millisecond
	e, failed := echo.New(), make(chan error)
	e.GET("/", func(c echo.Context) error {
		_, err := c.Response().Write(make([]byte, 64<<20))
		failed <- err
		return err
	})
	r := newConnsRig(t, conns, e, false)
	r.dial("127.0.0.1", "GET / HTTP/1.1\r\nHost: codes\r\n\r\n")
	r.await(1, 0, 0)
	r.cut()
	if err := <-failed; err == nil {
		t.Error("the answer was written")
	}
}

// Of idle connections, a stop waits only for those of an InheritedListener, since its port stays
// open for other processes.
func TestConnTrackerWaitsForIdleConnsOfAnInheritedSocket(t *testing.T) {
	e := echo.New()
	for inherited, unread := range map[bool]int{false: 0, true: 1} {
		r := newConnsRig(t, NewConnTracker(0, nil, slog.New(slog.DiscardHandler)), e, inherited)
		idle := r.dial("127.0.0.1", "GET / HTTP/1.1\r\nHost: codes\r\n\r\n")
		servertest.Same(t, "answer", nextAnswer(idle), connAnswer{status: 404})
		r.await(1, unread, 1)
		r.cut()
		servertest.Same(t, "after it", nextAnswer(idle), connAnswer{})
	}
}

// If a request with "Expect: 100-continue" is refused before its body is read, the answer is
// written at once and the connection closes. net/http knows that the client has not sent the body.
func TestConnTrackerRefusalAwaitsNoBody(t *testing.T) {
	r := newConnsRig(t, NewConnTracker(0, nil, slog.New(slog.DiscardHandler)), echo.New(), false)
	client := r.dial("127.0.0.1", "POST / HTTP/1.1\r\nHost: codes\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\n")
	servertest.Same(t, "answer", nextAnswer(client), connAnswer{status: 404, closes: true})
}

// A request that is being answered holds no trailer, whether its handler has read the body or not.
// The connection stays open, and the trailer is not taken for the next request.
func TestTrackRequestReadHoldsNoTrailer(t *testing.T) {
	for name, read := range map[string]bool{"a body that the handler reads": true, "a body that it does not read": false} {
		t.Run(name, func(t *testing.T) {
			conns, asParsed := NewConnTracker(0, nil, slog.New(slog.DiscardHandler)), make(chan *http.Request, 1)
			tracked := conns.TrackRequestRead(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if read {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				w.WriteHeader(http.StatusOK)
				servertest.Same(t, "flush", http.NewResponseController(w).Flush(), nil) // reads the rest of the body
				_, _ = fmt.Fprint(w, len((<-asParsed).Trailer)+len(r.Trailer))
			}))
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asParsed <- r
				tracked.ServeHTTP(w, r)
			}))
			s.Config.ConnState, s.Config.ConnContext, s.Listener = conns.Changed, withConn, conns.Listener(s.Listener)
			s.Start()
			t.Cleanup(s.Close)
			client := connsRig{T: t, port: s.Listener}.dial("127.0.0.1",
				strings.Repeat("POST / HTTP/1.1\r\nHost: codes\r\nTransfer-Encoding: chunked\r\nTrailer: a\r\n\r\n1\r\n1\r\n0\r\na:1\r\nb:2\r\n\r\n", 2))
			answers := bufio.NewReader(client)
			for range 2 {
				answer, err := http.ReadResponse(answers, nil)
				servertest.OK(t, err)
				body, err := io.ReadAll(answer.Body)
				servertest.OK(t, err)
				servertest.Same(t, "names of the trailer", string(body), "0")
			}
		})
	}
}

// A stop waits for a new connection, and for an idle connection once a request has begun on it.
func TestConnTrackerWaitsForBegunRequests(t *testing.T) {
	conns := NewConnTracker(0, nil, slog.New(slog.DiscardHandler))
	c := &conn{TCPConn: &net.TCPConn{}, tracker: conns}
	for i, state := range []http.ConnState{http.StateNew, http.StateIdle, http.StateActive} {
		conns.Changed(c, state)
		servertest.Same(t, state.String(), conns.unread(), (i+1)%2)
	}
}

// refusingPort is a listener whose Accept fails.
type refusingPort struct {
	net.Listener
	err error
}

// Accept implements net.Listener.
func (p refusingPort) Accept() (net.Conn, error) { return nil, p.err }

// A failure to accept connections is logged at most once a minute. The end of accepting is not
// logged.
func TestConnTrackerLogsAcceptErrors(t *testing.T) {
	var log servertest.Text
	conns := NewConnTracker(0, nil, slog.New(slog.NewTextHandler(&log, nil)))
	for err, want := range map[error]error{
		net.ErrClosed: net.ErrClosed, syscall.EINVAL: net.ErrClosed, os.ErrDeadlineExceeded: net.ErrClosed,
		syscall.EMFILE: syscall.EMFILE, syscall.ENFILE: syscall.ENFILE,
	} {
		_, got := conns.Listener(refusingPort{err: err}).Accept()
		servertest.Same(t, "error", got, want)
	}
	conns.Changed(nil, http.StateNew) // panics, and the process survives this although net/http calls Changed in a goroutine
	servertest.Same(t, "lines", strings.Count(log.String(), "\n"), 1)
	servertest.Same(t, "with the runbook", strings.Contains(log.String(), "level=WARN") &&
		strings.Contains(log.String(), "see=docs/runbooks.md#connections"), true)
}
