package outbox_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// wire is a service in front of a mail server with a connection of its own.
type wire struct {
	*vtest.Rig
	server *smtptest.Server
	down   atomic.Bool // connections are refused
}

func (r *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if r.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return r.server.Dial(ctx, network, addr)
}

func onTheWire(t *testing.T, change func(*vtest.Settings), script smtptest.Script, test func(r *wire)) {
	t.Helper()
	vtest.InBubbleIdle(t, change, func(rig *vtest.Rig) {
		r := &wire{Rig: rig, server: smtptest.New(rig.T, script)}
		servers, err := smtp.NewServers(smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: r.dial})
		r.NoError(err)
		r.Svc = r.Replica(servers)
		r.Start()
		test(r)
		_ = servers.Close()
		r.Quit()
		r.server.Stop()
	})
}

// A mail server misbehaves once on the wire: the state of the send and of its place, from the socket to the row. The class of each
// misbehaviour at each stage is tested in package smtp.
func TestFromTheWireToTheRow(t *testing.T) {
	const (
		given   = "failed rejected at attempt 1, 0 mails, 0 places"
		retried = "sent at attempt 2, 1 mails, 1 places"
		unknown = "unknown no_answer at attempt 1, 1 mails, 1 places"
		sent    = "sent at attempt 1, 1 mails, 1 places"
	)
	long := "250 " + strings.Repeat("x", 100_000) + "\r\n"
	for _, c := range []struct {
		rule smtptest.Rule
		want string
	}{
		{smtptest.Rule{Stage: smtptest.Greet, Reply: "554 5.3.2 no service", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Hello, Reply: "what?", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Mail, Raw: long, Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Rcpt, Stall: true}, retried},
		{smtptest.Rule{Stage: smtptest.Rcpt, Reply: "550 5.1.1 no"}, given},
		{smtptest.Rule{Stage: smtptest.Data, Reply: "421 4.3.2 closing", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Body, Close: true}, retried}, // the mail is longer than what the server had read: the dot never left
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "421 4.3.2 closing", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "550 5.7.1 not this", Slow: true, Pause: time.Second}, given},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "250 2.0.0 taken", Slow: true, Pause: time.Second}, sent},
		{smtptest.Rule{Stage: smtptest.Dot, Stall: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Close: true}, unknown},
	} {
		c.rule.Times = 1
		slowly := func(s *vtest.Settings) { s.Tick = 10 * time.Second }
		t.Run(string(c.rule.Stage)+" "+c.want, func(t *testing.T) {
			onTheWire(t, slowly, smtptest.Script{Rules: []smtptest.Rule{c.rule}}, func(r *wire) {
				a := r.SendTo(vtest.Ana)
				r.Sleep(11 * time.Minute) // a stall after the dot is waited for ten
				r.Want("in the end", fmt.Sprintf("%s at attempt %d, %d mails, %d places", r.Status(a), r.Get(a.View.ID).Send.Attempt,
					len(r.server.Messages()), r.QuotaOf("").Rules[2].Used), c.want)
			})
		})
	}
}

// The mail server is down for two minutes while people ask. When it is back, every code that is still alive arrives,
// once and soon; the others are failed for the reason that they expired, and cost nothing.
func TestReceiverDownForTwoMinutes(t *testing.T) {
	onTheWire(t, func(s *vtest.Settings) {
		brief := s.Purposes["default"]
		brief.Name, brief.TTL, brief.Shares, brief.Policy.Name = "brief", time.Minute, []string{"brief"}, "brief"
		s.Purposes["brief"] = brief
	}, smtptest.Script{}, func(r *wire) {
		r.down.Store(true)
		var all []verification.Answer
		const n = 60
		for i := range n {
			all = append(all, r.SendTo(vtest.NthAddress(i), vtest.For([]string{"brief", "", ""}[i%3])))
			r.Sleep(2 * time.Second)
		}
		r.down.Store(false)
		soon := time.Now().Add(45 * time.Second) // the longest backoff and the breaker's rest
		r.Sleep(45 * time.Second)
		arrived, expired, mails := 0, 0, r.server.ByID()
		for i, a := range all {
			switch got, n := r.Status(a), mails[a.View.Send.ID+"@shop.example"]; {
			case got == "sent" && n == 1:
				arrived++
			case got == "failed expired" && n == 0 && !a.View.ExpiresAt.After(soon):
				expired++
			default:
				t.Errorf("%d: %s with %d mails, its code lived until %v", i, got, n, a.View.ExpiresAt)
			}
		}
		if arrived < n*2/3 || expired < n/8 {
			t.Errorf("%d arrived, %d expired", arrived, expired)
		}
		r.SendTo(vtest.NthAddress(0), vtest.For("brief")) // one that expired: its place was given back
	})
}

// Row and log of a send tell a server that was set aside, and so not tried, from one that could not be reached.
func TestServerSetAside(t *testing.T) {
	onTheWire(t, nil, smtptest.Script{}, func(r *wire) {
		r.down.Store(true)
		for n, want := range []string{"dial", "dial", "dial", "aside"} {
			r.WantStatus(r.SendTo(vtest.NthAddress(n)), "queued temporary_"+want)
		}
		r.Want("lines of the log on it", strings.Count(r.Printed.String(), "stage=aside"), 1)
	})
}
