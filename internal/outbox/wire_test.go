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
	"sendcode/internal/outbox"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// A mail server misbehaves once on the wire: the state of the send and of its place, from the socket to the row.
func TestFromTheWireToTheRow(t *testing.T) {
	const (
		given   = "failed, and the place given back"
		retried = "queued with its place spent, then sent"
		unknown = "unknown, its place spent, never sent again"
		sent    = "sent"
	)
	long := "250 " + strings.Repeat("x", 100_000) + "\r\n"
	type row struct {
		rule smtptest.Rule
		want string
	}
	cases := []row{
		{smtptest.Rule{Stage: smtptest.Dot, Stall: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Close: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "what?", Close: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Raw: long, Close: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "550 5.7.1 not this", Slow: true, Pause: time.Second}, given},
		{smtptest.Rule{Stage: smtptest.Dot, Slow: true, Pause: time.Second, Reply: "250 2.0.0 taken"}, sent},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "421 4.3.2 closing", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "550 5.1.1 no"}, given},
		{smtptest.Rule{Stage: smtptest.Body, Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Greet, Reply: "554 5.3.2 no service", Close: true}, retried},
	}
	for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data} {
		for _, rule := range []smtptest.Rule{
			{Stall: true}, {Close: true}, {Reply: "what?", Close: true}, {Raw: long, Close: true},
			{Reply: "421 4.3.2 closing", Close: true}, {Slow: true, Pause: time.Second, Reply: "250 " + strings.Repeat("x", 40)},
		} {
			rule.Stage = stage
			cases = append(cases, row{rule, retried})
		}
		if stage != smtptest.Greet && stage != smtptest.Hello {
			cases = append(cases, row{smtptest.Rule{Stage: stage, Reply: "550 5.1.1 no"}, given})
		}
	}
	for _, c := range cases {
		c.rule.Times = 1
		t.Run(string(c.rule.Stage)+" "+c.want, func(t *testing.T) {
			vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
				server := smtptest.New(r.T, smtptest.Script{Rules: []smtptest.Rule{c.rule}})
				servers, err := smtp.NewServers(smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: server.Dial})
				r.NoError(err)
				r.Svc = r.Replica(servers)
				r.Start()
				a := r.SendTo(vtest.Ana)
				status := func() (store.Status, string) { s := r.Get(a.View.ID).Send; return s.Status, s.Reason }
				first := store.Sending
				for i := 0; first == store.Sending && i < 1000; i++ { // ten minutes after the dot, at most
					r.Sleep(time.Second)
					first, _ = status()
				}
				r.Sleep(45 * time.Second) // retries
				last, reason := status()
				mails, spent := len(server.Messages()), r.QuotaOf("").Rules[2].Used == 1
				got := map[bool]string{
					first == store.Failed && reason == store.ReasonRejected && mails == 0 && !spent: given,
					first == store.Queued && last == store.Sent && mails == 1 && spent:              retried,
					first == store.Unknown && last == store.Unknown && mails == 1 && spent:          unknown,
					first == store.Sent && last == store.Sent && mails == 1 && spent:                sent,
				}[true]
				if got != c.want {
					t.Errorf("first %s, then %s %s, %d mails, place spent: %v; want %s", first, last, reason, mails, spent, c.want)
				}
				_ = servers.Close()
				r.Quit()
				server.Stop()
			})
		})
	}
}

// The mail server is down for two minutes while people ask. When it is back, every code that is still alive arrives,
// once and soon; the others are failed for the reason that they expired, and cost nothing.
func TestReceiverDownForTwoMinutes(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) {
		brief := s.Purposes["default"]
		brief.Name, brief.TTL, brief.Shares, brief.Policy.Name = "brief", time.Minute, []string{"brief"}, "brief"
		s.Purposes["brief"] = brief
	}, func(r *vtest.Rig) {
		var down atomic.Bool
		server := smtptest.New(r.T, smtptest.Script{})
		servers, err := smtp.NewServers(smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if down.Load() {
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				return server.Dial(ctx, network, addr)
			}})
		r.NoError(err)
		r.Svc = r.Replica(servers)
		r.Start()
		down.Store(true)
		var all []verification.View
		const n = 240 // one in half a second, for two minutes
		for i := range n {
			ask := vtest.AskFor(fmt.Sprintf("person-%d@example.com", i))
			if i%3 == 0 {
				ask.Purpose = "brief"
			}
			all = append(all, r.Send(ask).View)
			r.Sleep(500 * time.Millisecond)
		}
		down.Store(false)
		back := time.Now()
		r.Sleep(45 * time.Second) // the longest backoff and the breaker's rest
		arrived, expired := 0, 0
		mails := server.ByID()
		for i, s := range all {
			v := r.Get(s.ID)
			got := mails[v.Send.ID+"@shop.example"]
			switch {
			case v.Send.Status == store.Sent && got == 1:
				arrived++
			case v.Send.Status == store.Failed && v.Send.Reason == outbox.ReasonExpired && got == 0:
				expired++
				if s.ExpiresAt.After(back.Add(45 * time.Second)) {
					t.Errorf("%d: failed with %v of life left", i, s.ExpiresAt.Sub(back))
				}
			default:
				t.Errorf("%d: %s %s with %d mails, its code lived until %v after the server was back", i, v.Send.Status, v.Send.Reason, got,
					s.ExpiresAt.Sub(back))
			}
		}
		if arrived < n*2/3 || expired < n/8 {
			t.Errorf("%d arrived, %d expired", arrived, expired)
		}
		again := vtest.AskFor("person-0@example.com") // one that expired: its place was given back
		again.Purpose = "brief"
		r.Send(again)
		_ = servers.Close()
		r.Quit()
		server.Stop()
	})
}

// Row and log of a send tell a server that was set aside, and so not tried, from one that could not be reached.
func TestServerSetAside(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		servers, err := smtp.NewServers(smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}})
		r.NoError(err)
		r.Svc = r.Replica(servers)
		r.Start()
		for i, want := range []string{"temporary_dial", "temporary_dial", "temporary_dial", "temporary_aside"} {
			a := r.Send(vtest.AskFor(fmt.Sprintf("person-%d@example.com", i)))
			if got := r.Get(a.View.ID).Send.Reason; got != want {
				t.Errorf("send %d: %s, want %s", i, got, want)
			}
		}
		if n := strings.Count(r.Printed.String(), "stage=aside"); n != 1 {
			t.Errorf("%d lines of the log say that the server is set aside, want 1", n)
		}
		_ = servers.Close()
		r.Quit()
	})
}
