package server

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

// A connection that the kernel has already made is not reset, because the port stays open until
// Accept returns that connection. Further connections are refused.
func TestEndAccepting(t *testing.T) {
	defer func(wait time.Duration) { endAcceptingTimeout = wait }(endAcceptingTimeout)
	endAcceptingTimeout = servertest.Patience
	l, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	servertest.OK(t, err)
	defer client.Close()
	ended, accepted := make(chan struct{}), make(chan struct{})
	go func() {
		EndAccepting(l)
		select {
		case <-accepted:
		default:
			t.Error("ended before the connection was accepted")
		}
		close(ended)
	}()
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	<-time.After(50 * time.Millisecond) // time in which EndAccepting could return too early
	close(accepted)
	conn, err := l.Accept()
	servertest.OK(t, err)
	defer conn.Close()
	<-ended
	got := make([]byte, 7)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "request" {
		t.Errorf("%q, %v", got, err)
	}
	if late, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port still listens")
		_ = late.Close()
	}
}

// If too many connections wait for a request, the oldest connection of the network with the most
// waiting connections is closed. Connections of other networks and of trusted proxies stay open.
// The log has one line about the closed connections.
func TestConnTrackerBoundsWaitingConns(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
	var log servertest.Text
	r := newConnsRig(t, NewConnTracker(4, proxies, slog.New(slog.NewTextHandler(&log, nil))), echo.New(), false)
	var all []net.Conn
	for i, from := range []string{"127.0.0.9", "127.0.0.9", "127.0.1.1", "127.0.2.1", "127.0.2.2", "127.0.2.1", "127.0.2.3", "127.0.3.1"} {
		all = append(all, r.dial(from, ""))
		if i < 6 {
			r.await(i+1, i+1, max(0, i-1)) // so that the next connection is accepted later
		} else { // the strangers' fifth and sixth connection
			servertest.Same(t, "answer of the oldest one", nextAnswer(all[i-3]), connAnswer{})
		}
	}
	for _, kept := range append(all[:3:3], all[5:]...) {
		_, _ = io.WriteString(kept, "GET / HTTP/1.1\r\nHost: codes\r\n\r\n")
		servertest.Same(t, "answer", nextAnswer(kept), connAnswer{status: 404})
	}
	servertest.Same(t, "lines", strings.Count(log.String(), "too many connections wait"), 1)
}

// If several networks have equally many connections, the connection that has waited longest is
// closed. The new connection stays open.
func TestConnTrackerClosesTheLongestWaiting(t *testing.T) {
	r := newConnsRig(t, NewConnTracker(4, nil, slog.New(slog.DiscardHandler)), echo.New(), false)
	var all []net.Conn
	for i := range 5 {
		all = append(all, r.dial(fmt.Sprintf("127.0.%d.1", i), ""))
		r.await(min(i+1, 4), min(i+1, 4), min(i+1, 4))
	}
	servertest.Same(t, "answer of the oldest one", nextAnswer(all[0]), connAnswer{})
}
