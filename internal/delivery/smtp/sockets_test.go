package smtp_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// openConns counts the sockets that a sender holds.
type openConns struct {
	mu        sync.Mutex
	now, peak int
}

type countedConn struct {
	net.Conn
	close func() error
}

func (c countedConn) Close() error { return c.close() }

func (o *openConns) add(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now += n
	o.peak = max(o.peak, o.now)
	return o.now
}

// count makes a configuration count its sockets.
func (o *openConns) count(c *smtp.Config) {
	dial := c.Dial
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		o.add(1)
		return countedConn{conn, sync.OnceValue(func() error { o.add(-1); return conn.Close() })}, nil
	}
}

// TestWornOutConnectionsAreClosed: the one that failed, and those that have been idle for longer.
func TestWornOutConnectionsAreClosed(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		server := smtptest.New(t, smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Dot, Delay: time.Second}}})
		var open openConns
		s := piped(t, server, open.count)
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() { sendAll(t, s, n, n) })
		}
		wg.Wait()
		if n := open.add(0); n != 3 {
			t.Fatalf("%d connections kept, want 3", n)
		}
		server.SetScript(smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Mail, Times: 1, Reply: "421 4.3.2 going down"}}})
		sendAll(t, s, 4, 4)
		if n := open.add(0); n != 1 {
			t.Errorf("%d connections open, want the fresh one", n)
		}
	})
}

// TestNeverMoreSocketsThanAllowed: also while connections are replaced, retired, probed or expire.
func TestNeverMoreSocketsThanAllowed(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		server := smtptest.New(t, smtptest.Script{Rules: []smtptest.Rule{
			{Stage: smtptest.Mail, Skip: 3, Times: 3, Reply: "421 4.3.2 no"}, {Stage: smtptest.Quit, Delay: 300 * time.Millisecond}}})
		var open openConns
		s := piped(t, server, open.count, func(c *smtp.Config) { c.MaxConns, c.MaxMails, c.MaxIdle = 2, 3, time.Second })
		for round := range 5 {
			var wg sync.WaitGroup
			for n := range 8 {
				wg.Go(func() { _, _ = s.Send(t.Context(), message(10*round+n)) })
			}
			wg.Wait()
			if err := s.Probe(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(round) * 500 * time.Millisecond)
		}
		if open.peak != 2 {
			t.Errorf("%d sockets at once, want 2", open.peak)
		}
		_ = s.Close()
		if n := open.add(0); n != 0 {
			t.Errorf("%d sockets left", n)
		}
	})
}
