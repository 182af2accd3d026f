package server

import (
	"container/list"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/quota/quotahttp"
)

// InheritedListener is a port that another process, such as systemd, has opened and keeps open.
// When this process stops accepting, it must not call shutdown(2), which would close the port for
// all processes.
type InheritedListener struct{ *net.TCPListener }

func (i InheritedListener) endAccepting() (ended bool) { return i.SetDeadline(time.Unix(1, 0)) == nil }

// ConnTracker keeps track of a process's accepted connections. When the process stops, the
// ConnTracker bounds how long the process waits for connections. It also bounds the number of
// connections that wait for their client to send a request or the rest of a request.
type ConnTracker struct {
	UnreadWait time.Duration // the longest time for which End, and writes after End, wait for a client; must be set before use

	max     int            // most connections that may wait for their client; 0: any number
	proxies []netip.Prefix // connections of these proxies are not counted, and not closed because of max
	logger  *slog.Logger
	lines   logs.Throttle

	ending atomic.Bool // set by End
	mu     sync.Mutex
	open   map[*conn]bool
	queues map[netip.Prefix]*list.List // connections that count for max, by network, the longest waiting first
	queued int
	turns  int // how many times a connection was added to a queue
}

// NewConnTracker returns an empty ConnTracker. If more than maxWaiting connections wait for a
// request, or for the rest of one, the ConnTracker closes one of them. It selects the network (/24
// of IPv4, /48 of IPv6) with the most waiting connections and closes the one that has waited
// longest. Connections of the proxies do not count and are not closed for this reason. The
// ConnTracker logs closed connections at most once a minute. If maxWaiting is 0, any number of
// connections may wait.
func NewConnTracker(maxWaiting int, proxies []netip.Prefix, logger *slog.Logger) *ConnTracker {
	return &ConnTracker{
		UnreadWait: DefaultUnreadWait, max: maxWaiting, proxies: proxies, logger: logger,
		open: map[*conn]bool{}, queues: map[netip.Prefix]*list.List{},
	}
}

// conn is an accepted connection. The lock of the ConnTracker guards the fields after head.
type conn struct {
	*net.TCPConn
	tracker   *ConnTracker
	network   netip.Prefix  // /24 or /48; zero for a proxy
	inherited bool          // the connection came from an InheritedListener
	blocked   time.Duration // how long writes were blocked while the process stops; only Write uses it
	head      head          // of the request that is being read; only the goroutine that reads uses it

	answering bool          // the head of a request has been read, and its answer is not yet written
	body      *unreadBody   // body of this request; nil when it has been read
	idle      bool          // has answered a request, and none has begun since
	place     *list.Element // in the network's queue; nil: none
	turn      int           // the connection's place in line: a connection with a lower turn has waited longer
}

// Write implements net.Conn. While the process stops, all writes to a client together may block for
// at most UnreadWait.
func (c *conn) Write(p []byte) (int, error) {
	if c.tracker.ending.Load() {
		began := time.Now()
		_ = c.SetWriteDeadline(began.Add(c.tracker.UnreadWait - c.blocked))
		defer func() { c.blocked += time.Since(began) }()
	}
	return c.TCPConn.Write(p)
}

// Listener returns a listener that adds the connections of l to the ConnTracker. The http.Server of
// the listener must have Changed as its ConnState. The listener logs errors of Accept at most once
// a minute.
func (ct *ConnTracker) Listener(l net.Listener) net.Listener { return connListener{l, ct} }

type connListener struct {
	net.Listener
	tracker *ConnTracker
}

// Accept implements net.Listener.
func (l connListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	_, inherited := l.Listener.(InheritedListener)
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EINVAL), errors.Is(err, os.ErrDeadlineExceeded): // by Close or EndAccepting
		return nil, net.ErrClosed // http.Server would try again after a deadline
	case err != nil:
		if n, due := l.tracker.lines.Add("", time.Now()); due {
			l.tracker.logger.Warn("connections are not accepted", "error", err, "count", n, logs.SeeConnections)
		}
		return nil, err
	}
	c := &conn{TCPConn: accepted.(*net.TCPConn), tracker: l.tracker, inherited: inherited}
	if peer, _ := quotahttp.ParseHop(accepted.RemoteAddr().String()); !isTrustedProxy(l.tracker.proxies, peer) {
		_, c.network = networksOf(peer)
	}
	return c, nil
}

// Changed implements http.Server's ConnState.
func (ct *ConnTracker) Changed(accepted net.Conn, state http.ConnState) {
	defer panics.Recover(panics.Request) // since net/http also calls Changed outside of requests
	c := accepted.(*conn)
	ct.mu.Lock()
	defer ct.mu.Unlock()
	switch state {
	case http.StateNew:
		ct.open[c] = true
		if ct.ending.Load() {
			c.end()
		}
	case http.StateActive:
		c.idle = false
	case http.StateIdle:
		c.answering, c.body, c.idle = false, nil, true
		c.head = head{}
	case http.StateClosed, http.StateHijacked:
		delete(ct.open, c)
	}
	ct.update(c)
}

// TrackRequestRead is middleware that records that a request's head has been read. It also records
// when the request's body has been read.
func (ct *ConnTracker) TrackRequestRead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*conn)
		ct.mu.Lock()
		c.answering = true
		if r.Body != http.NoBody {
			c.head.ended = true // also if this head arrived together with the previous request, so that add did not count it
			c.body = &unreadBody{ReadCloser: r.Body, ResponseWriter: w, conn: c, request: r}
			w = c.body
			r = r.WithContext(r.Context()) // a copy, because net/http checks the body's type in its own request
			r.Body, r.Trailer = c.body, nil
		}
		ct.update(c)
		late := ct.ending.Load() || !ct.open[c]
		ct.mu.Unlock()
		if late {
			panic(http.ErrAbortHandler) // closes the connection
		}
		next.ServeHTTP(w, r)
	})
}

// waits reports whether the connection waits for its client.
func (c *conn) waits() bool { return c.tracker.open[c] && (!c.answering || c.body != nil) }

// update adds a waiting connection to the queue of its network, or removes a connection that no
// longer waits. If too many connections are queued in all networks together, update closes the
// longest-waiting connection of the longest queue. The caller must hold the lock.
func (ct *ConnTracker) update(c *conn) {
	waits, queue := c.waits(), ct.queues[c.network]
	switch {
	case waits && c.place == nil && c.network.IsValid():
		if queue == nil {
			queue = list.New()
			ct.queues[c.network] = queue
		}
		c.place, c.turn = queue.PushBack(c), ct.turns
		ct.queued++
		ct.turns++
		if ct.max > 0 && ct.queued > ct.max {
			first := queue.Front().Value.(*conn)
			for _, other := range ct.queues {
				one, more := other.Front().Value.(*conn), other.Len()-ct.queues[first.network].Len()
				if more > 0 || more == 0 && one.turn < first.turn {
					first = one
				}
			}
			first.end()
			if n, due := ct.lines.Add("closed", time.Now()); due {
				ct.logger.Warn("too many connections wait for their client: the oldest are closed", "count", n, logs.SeeConnections)
			}
		}
	case !waits && c.place != nil:
		queue.Remove(c.place)
		c.place = nil
		ct.queued--
		if queue.Len() == 0 {
			delete(ct.queues, c.network)
		}
	}
}

// end closes a connection that waits for its client. The caller must hold the lock.
func (c *conn) end() {
	delete(c.tracker.open, c)
	_ = c.Close()
	c.tracker.update(c)
}

// DefaultUnreadWait is the longest time for which a stopping process waits for a client to send a
// request on an open connection, to send the rest of a request's body, or to read its answer.
const DefaultUnreadWait = time.Second

// End waits until each request that clients have begun is read, but for at most UnreadWait. It also
// waits for new connections on which no request has begun, and for idle connections of an
// InheritedListener. A request may be arriving on such a connection, which http.Server.Shutdown
// would close anyway.
//
// When End has waited, it closes all connections without a request. It also makes reads of bodies
// that have not arrived fail, so the requests with these bodies get a 503. Call End after the
// process has stopped accepting.
func (ct *ConnTracker) End() {
	for until := time.Now().Add(ct.UnreadWait); ct.unread() > 0 && time.Now().Before(until); <-time.After(10 * time.Millisecond) {
	}
	ct.cut()
}

// unread returns the number of connections for which End waits.
func (ct *ConnTracker) unread() (n int) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	for c := range ct.open {
		if c.waits() && (c.answering || !c.idle || c.inherited) {
			n++
		}
	}
	return n
}

func (ct *ConnTracker) cut() {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.ending.Store(true)
	for c := range ct.open {
		if !c.answering {
			c.end()
		} else if c.body != nil {
			c.body.cut = true
			_ = c.SetReadDeadline(time.Unix(1, 0))
		}
		_ = c.SetWriteDeadline(time.Now().Add(ct.UnreadWait)) // for a write that has begun
	}
}

// unreadBody is the body of a request until it has been read. It also writes the request's answer.
type unreadBody struct {
	io.ReadCloser
	http.ResponseWriter
	conn    *conn
	request *http.Request // net/http's own; the handlers have a copy
	cut     bool          // by ConnTracker.End
}

const (
	// restWait is how long an answer waits for the rest of a body that its handler has not read.
	restWait = time.Second
	// maxRest is how many bytes of this rest an answer waits for, as in net/http.
	maxRest = 256 << 10
)

// WriteHeader implements http.ResponseWriter. If the body has not been read, its rest is read
// before the answer is sent. If the rest takes longer than restWait, net/http closes the connection
// with the answer, so that the connection does not hold the request until readTimeout.
func (b *unreadBody) WriteHeader(status int) {
	s := b.conn.tracker
	s.mu.Lock()
	if b.conn.body == b && !b.cut {
		_ = b.conn.SetReadDeadline(time.Now().Add(restWait))
	}
	s.mu.Unlock()
	b.dropTrailer()
	b.ResponseWriter.WriteHeader(status)
}

// dropTrailer reads the rest of a chunked body and forgets its trailer, which no handler uses. A
// trailer of 4 kB takes 100 kB once net/http has parsed it. The request would hold that memory
// until the client has read the answer. For Expect: 100-continue, net/http does not read the rest.
func (b *unreadBody) dropTrailer() {
	if b.request.ContentLength < 0 && b.request.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, maxRest) // net/http meets the same error
	}
	b.request.Trailer = nil
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (b *unreadBody) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// errUnread is the 503 for a request whose body had not arrived when the process stopped.
var errUnread = func() *Problem {
	p := unavailableProblem("The service stops, and this request's body had not arrived. Nothing was done.", unavailableWait)
	p.closes = true
	return p
}()

// Read implements io.Reader. When End has cut this body (has made its reads fail), Read always
// returns errUnread, even if the rest of the body has just been read. The request cannot go on in
// that case either, because End has also set a read deadline in the past on the connection, and
// http.Server would cancel the request while a handler works on it.
func (b *unreadBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	s := b.conn.tracker
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.cut:
		return 0, errUnread
	case err != nil && b.conn.body == b:
		b.conn.body = nil
		s.update(b.conn)
	}
	return n, err
}
