package smtp_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// A server, or a firewall, refuses connections beyond its limit without a reply. The mails go over
// the accepted connections at once, also in the next backlog, and the server is not set aside.
func TestServerDropsConnections(t *testing.T) {
	const hangs = 5 * time.Second
	for name, c := range map[string]struct {
		rule                smtptest.Rule // for connections beyond limit; at the greeting by default
		dial                error         // an error of the dial instead of the rule
		limit, mails, conns int
		late                time.Duration // added to the time that the mails take over limit connections
	}{
		"ended, of 4":         {rule: smtptest.Rule{Close: true}, limit: 2, mails: 12},
		"ended, grown":        {rule: smtptest.Rule{Close: true}, limit: 5, mails: 60},
		"ended, of 20":        {rule: smtptest.Rule{Close: true}, limit: 5, mails: 60, conns: 20},
		"one is left":         {rule: smtptest.Rule{Close: true}, limit: 1, mails: 12},
		"reset":               {rule: smtptest.Rule{Abort: true}, limit: 5, mails: 60},
		"a broken greeting":   {rule: smtptest.Rule{Raw: "HTTP/1.1 503 busy\r\n\r\n", Close: true}, limit: 5, mails: 60},
		"half a greeting":     {rule: smtptest.Rule{Raw: "22", Close: true}, limit: 5, mails: 60},
		"ended after EHLO":    {rule: smtptest.Rule{Stage: smtptest.Hello, Close: true}, limit: 5, mails: 60},
		"ended after MAIL":    {rule: smtptest.Rule{Stage: smtptest.Mail, Close: true}, limit: 5, mails: 60},
		"refused, of 4":       {dial: syscall.ECONNREFUSED, limit: 2, mails: 12},
		"refused, grown":      {dial: syscall.ECONNREFUSED, limit: 5, mails: 60},
		"packets are dropped": {dial: context.Canceled, limit: 5, mails: 60, late: hangs},
		"no greeting":         {rule: smtptest.Rule{Stall: true}, limit: 5, mails: 60, late: hangs},
		"no greeting, of 20":  {rule: smtptest.Rule{Stall: true}, limit: 5, mails: 60, conns: 20, late: hangs + 1200*time.Millisecond},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			c.rule.Over = c.limit
			if c.rule.Stage == "" {
				c.rule.Stage = smtptest.Greet
			}
			rules := []smtptest.Rule{c.rule, takes300ms.Rules[0]}
			if c.dial != nil {
				rules = rules[1:]
			}
			server := smtptest.New(t, smtptest.Misbehaving(rules...))
			s := server.Sender(t, between(0, c.conns), func(config *smtp.Config) {
				var dialing sync.Mutex // without it, one of two dials would count the other's connection
				config.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
					dialing.Lock()
					if err = c.dial; err == nil || server.Open() < c.limit {
						conn, err = server.Dial(ctx, network, address)
					}
					dialing.Unlock()
					if err == context.Canceled {
						<-ctx.Done()
					}
					return conn, err
				}
			})
			for _, late := range []time.Duration{c.late, 0} { // the next backlog is not late
				began := time.Now()
				burst(t, s, server.Connections()*1000, c.mails)
				want := time.Duration(c.mails/c.limit+2)*300*time.Millisecond + late
				if took := time.Since(began); took > want {
					t.Errorf("%s: %d mails took %v, want %v", name, c.mails, took, want)
				}
			}
			servertest.Same(t, name+": up", s.Health()[0].Up && s.Health()[0].Since.IsZero(), true)
			servertest.Same(t, name+": soon", s.ConnLimit(), c.limit)
			smtptest.AllOnce(t, 2*c.mails, server)
		})
	}
}

// A server that accepts no more connections is set aside, even if its earlier connections worked:
// they are closed, or wait for an answer.
func TestPoolSetsAsideAServerThatGoesAway(t *testing.T) {
	for name, held := range map[string]bool{"its connections end": false, "its connections hang": true} {
		servertest.Bubble(t, func(t *testing.T) {
			var away atomic.Bool
			server := smtptest.New(t, takes300ms)
			s := server.Sender(t, func(config *smtp.Config) {
				config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if away.Load() {
						return nil, syscall.ECONNREFUSED
					}
					return server.Dial(ctx, network, address)
				}
			})
			burst(t, s, 0, 40)
			if held {
				server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Stall: true}))
				for n := range 4 {
					go func() { _, _ = s.Send(t.Context(), smtptest.Sample(100+n)) }()
				}
				time.Sleep(20 * time.Second) // the idle connections beyond the least number have been closed by then
			}
			away.Store(held)
			if !held { // the connections end with mails under way
				for n := range 40 {
					go func() { _, _ = s.Send(t.Context(), smtptest.Sample(100+n)) }()
				}
				time.Sleep(100 * time.Millisecond)
				away.Store(true)
				server.Stop()
				time.Sleep(time.Second)
			}
			for n := range 2 * delivery.FaultsToOpenBreaker {
				began := time.Now()
				_, err := s.Send(t.Context(), smtptest.Sample(200+n))
				if took := time.Since(began); err == nil || took > time.Second {
					t.Errorf("%s: mail %d: %v after %v", name, n, err, took)
				}
			}
			servertest.Same(t, name+": up", s.Health()[0].Up, false)
			if held {
				server.Stop()
				return
			}
			server = smtptest.New(t, takes300ms)
			away.Store(false)
			time.Sleep(delivery.BreakerOpenFor + time.Second)
			sendAll(t, s, 300, 300)
			began := time.Now()
			burst(t, s, 400, 40)
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("%s: back again, 40 mails take %v", name, took)
			}
		})
	}
}
