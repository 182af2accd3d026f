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
)

// InheritedListener is a port that another process, such as systemd, has opened and keeps open.
// When accepting ends, the port must stay as it is: shutdown(2) would close it for all processes.
type InheritedListener struct{ *net.TCPListener }

func (i InheritedListener) endAccepting() (ended bool) { return i.SetDeadline(time.Unix(1, 0)) == nil }

// ConnTracker has the accepted connections of a process. It bounds how long a stop waits for them,
// and how many connections wait for their client. Make it by NewConnTracker.
type ConnTracker struct {
	UnreadWait time.Duration // the longest time for which End, and writes after it, wait for a client; set it before use

	max     int            // most connections that may wait for their client; 0: any number
	proxies []netip.Prefix // connections of these proxies are not counted, and not closed because of max
	logger  *slog.Logger
	lines   logs.Throttle

	ending atomic.Bool // set by End
	mu     sync.Mutex
	open   map[*conn]bool
	queues map[netip.Prefix]*list.List // connections that count for max, by network, the longest waiting first
	queued int
	turns  int // connections that ever were in a queue
}

// NewConnTracker returns an empty ConnTracker. When more than maxWaiting connections wait for their
// client, it closes one: the longest waiting connection of the /24 or /48 that has most. It never
// closes one of a proxy. It logs this at most once a minute. 0 for maxWaiting means any number.
func NewConnTracker(maxWaiting int, proxies []netip.Prefix, logger *slog.Logger) *ConnTracker {
	return &ConnTracker{
		UnreadWait: DefaultUnreadWait, max: maxWaiting, proxies: proxies, logger: logger,
		open: map[*conn]bool{}, queues: map[netip.Prefix]*list.List{},
	}
}

// conn is an accepted connection. The lock of set guards the fields after blocked.
type conn struct {
	*net.TCPConn
	set     *ConnTracker
	network netip.Prefix  // /24 or /48; zero of a proxy
	passed  bool          // of a InheritedListener
	blocked time.Duration // how long writes were blocked while the process stops; only Write uses it

	answering bool          // the head of a request has been read, and its answer is not yet written
	body      *unreadBody   // body of this request; nil when it has been read
	idle      bool          // has answered a request, and none has begun since
	place     *list.Element // in the network's queue; nil: none
	turn      int           // of place: a lower one waits longer
}

// Write implements net.Conn. While the process stops, a client has UnreadWait to take all that is
// written.
func (c *conn) Write(p []byte) (int, error) {
	if c.set.ending.Load() {
		began := time.Now()
		_ = c.SetWriteDeadline(began.Add(c.set.UnreadWait - c.blocked))
		defer func() { c.blocked += time.Since(began) }()
	}
	return c.TCPConn.Write(p)
}

// Listener returns l, with its connections added to the ConnTracker. It is for an http.Server whose
// ConnState is Changed. Accept errors are logged, at most once a minute.
func (ct *ConnTracker) Listener(l net.Listener) net.Listener { return connListener{l, ct} }

type connListener struct {
	net.Listener
	set *ConnTracker
}

// Accept implements net.Listener.
func (l connListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	_, passed := l.Listener.(InheritedListener)
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EINVAL), errors.Is(err, os.ErrDeadlineExceeded): // by EndAccepting
		return nil, net.ErrClosed // http.Server would try again after a deadline
	case err != nil:
		if n, due := l.set.lines.Add("", time.Now()); due {
			l.set.logger.Warn("connections are not accepted", "error", err, "count", n, logs.SeeConnections)
		}
		return nil, err
	}
	c := &conn{TCPConn: accepted.(*net.TCPConn), set: l.set, passed: passed}
	if peer, _ := ParseHop(accepted.RemoteAddr().String()); !isTrustedProxy(l.set.proxies, peer) {
		_, c.network = networksOf(peer)
	}
	return c, nil
}

// Changed implements http.Server's ConnState.
func (ct *ConnTracker) Changed(accepted net.Conn, state http.ConnState) {
	defer panics.Recover(panics.Request) // since net/http also calls it outside of requests
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
	case http.StateClosed, http.StateHijacked:
		delete(ct.open, c)
	}
	ct.update(c)
}

// TrackRequestRead is middleware that notes that a request's head has been read, and when its body
// has been read.
func (ct *ConnTracker) TrackRequestRead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*conn)
		ct.mu.Lock()
		c.answering = true
		if r.Body != http.NoBody {
			c.body = &unreadBody{r.Body, c, false}
			r = r.WithContext(r.Context()) // a copy: net/http refuses by the type of the body in its own request
			r.Body = c.body
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
func (c *conn) waits() bool { return c.set.open[c] && (!c.answering || c.body != nil) }

// update adds a connection to its queue, or removes it. If the queues are too long, it closes the
// first connection of the longest queue. The caller must hold the lock.
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

// end closes a connection from which no request is being read. The caller must hold the lock.
func (c *conn) end() {
	delete(c.set.open, c)
	_ = c.Close()
	c.set.update(c)
}

// DefaultUnreadWait is the longest time for which a stop waits for a client: for a request on an
// open connection, for a body, and for a client that does not take an answer.
const DefaultUnreadWait = time.Second

// End waits, at most UnreadWait, until each request that clients have begun is read. It also waits
// for a connection without a request if the connection is new, or idle and of an InheritedListener:
// http.Server.Shutdown would close it although a request already arrives. Then End closes all
// connections without a request, and lets reads of unread bodies fail: those requests get 503. Call
// it when accepting has ended.
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
		if c.waits() && (c.answering || !c.idle || c.passed) {
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

// unreadBody is the body of a request until it has been read.
type unreadBody struct {
	io.ReadCloser
	conn *conn
	cut  bool // by ConnTracker.End
}

// errUnread is the 503 for a request whose body had not arrived when the process stopped.
var errUnread = func() *Problem {
	p := unavailableProblem("The service stops, and this request's body had not arrived. Nothing was done.", unavailableWait)
	p.closes = true
	return p
}()

// Read implements io.Reader. The end of the read deadline would also cancel a request whose body
// has just been read completely, so such a request gets errUnread, too.
func (b *unreadBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	s := b.conn.set
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
