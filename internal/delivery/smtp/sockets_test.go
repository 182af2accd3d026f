package smtp_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// TestWornOutConnectionsAreClosed: the one that failed, and those that have been idle for longer.
func TestWornOutConnectionsAreClosed(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: time.Second}))
		burst(t, s, 0, 3)
		if synctest.Wait(); server.Open() != 3 {
			t.Fatalf("%d connections kept, want 3", server.Open())
		}
		server.SetScript(misbehaving(smtptest.Rule{Stage: smtptest.Mail, Times: 1, Reply: "421 4.3.2 going down"}))
		sendAll(t, s, 4, 4)
		if synctest.Wait(); server.Open() != 1 {
			t.Errorf("%d connections open, want the fresh one", server.Open())
		}
	})
}

// counted is a socket that counts while the client has not closed it.
type counted struct {
	net.Conn
	closed func()
}

func (c counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestNeverMoreSocketsThanAllowed: also while connections are replaced, retired or expire.
func TestNeverMoreSocketsThanAllowed(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server := smtptest.New(t, misbehaving(
			smtptest.Rule{Stage: smtptest.Mail, Skip: 3, Times: 3, Reply: "421 4.3.2 no"}, smtptest.Rule{Stage: smtptest.Quit, Delay: 300 * time.Millisecond}))
		var now, peak atomic.Int32
		s := piped(t, server, func(c *smtp.Config) {
			c.MaxConns, c.MaxMails = 2, 3
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := server.Dial(ctx, network, addr)
				peak.Store(max(peak.Load(), now.Add(1)))
				return counted{conn, sync.OnceFunc(func() { now.Add(-1) })}, err
			}
		})
		for round := range 5 {
			var wg sync.WaitGroup
			for n := range 8 {
				wg.Go(func() { _, _ = s.Send(t.Context(), smtptest.Sample(10*round+n)) })
			}
			wg.Wait()
			time.Sleep(time.Duration(round) * 15 * time.Second)
		}
		if peak.Load() != 2 {
			t.Errorf("%d sockets at once, want 2", peak.Load())
		}
		s.Close()
		if n := now.Load(); n != 0 {
			t.Errorf("%d sockets left", n)
		}
	})
}
