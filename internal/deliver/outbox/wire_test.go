package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// wire is a service and the mail server that it sends to. The test decides which connections work.
type wire struct {
	*vtest.Rig
	server *smtptest.Server
	down   atomic.Bool // connections are refused
	silent atomic.Bool // no new connection is answered
	began  time.Time
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return w.server.Dial(ctx, network, addr)
}

func onTheWire(t *testing.T, change func(*vtest.Settings), script smtptest.Script, test func(r *wire)) {
	t.Helper()
	onTheWireWith(t, change, script, func(*smtp.Config) {}, test)
}

// onTheWireWith is onTheWire with other settings of the connections.
func onTheWireWith(t *testing.T, change func(*vtest.Settings), script smtptest.Script, connect func(*smtp.Config), test func(r *wire)) {
	t.Helper()
	vtest.InBubbleIdle(t, change, func(rig *vtest.Rig) {
		r := &wire{Rig: rig, server: smtptest.New(rig.T, script), began: time.Now()}
		servers := r.server.Sender(r, func(c *smtp.Config) { c.Dial = r.dial }, connect)
		r.Svc = r.Replica(servers)
		r.Start()
		test(r)
		_ = servers.Close()
		r.Quit()
		r.server.Stop()
	})
}

// A mail server misbehaves once. The test compares the state of the send and of its place in the
// database. Package smtp tests the class of each misbehaviour at each stage.
func TestRowAfterEachFaultOfSMTP(t *testing.T) {
	const (
		rejected = "failed rejected at attempt 1, 0 mails, 0 places"
		retried  = "sent at attempt 2, 1 mails, 1 places"
		unknown  = "unknown no_answer at attempt 1, 1 mails, 1 places"
		sent     = "sent at attempt 1, 1 mails, 1 places"
	)
	for _, c := range []struct {
		rule smtptest.Rule
		want string
	}{
		{smtptest.Rule{Stage: smtptest.Greet, Reply: "554 5.3.2 no service", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Rcpt, Stall: true}, retried},
		{smtptest.Rule{Stage: smtptest.Rcpt, Reply: "550 5.1.1 no"}, rejected},
		{smtptest.Rule{Stage: smtptest.Data, Reply: "550 5.7.0 Requested action not taken: too many emails per second"}, retried},
		// At the stage Body, the server closes the connection after it has read a part of the mail,
		// so the dot was never sent.
		{smtptest.Rule{Stage: smtptest.Body, Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "421 4.3.2 closing", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "250 2.0.0 taken", Slow: true, Pause: time.Second}, sent},
		{smtptest.Rule{Stage: smtptest.Dot, Stall: true}, unknown},
	} {
		c.rule.Times = 1
		change := func(s *vtest.Settings) {
			s.Tick = 10 * time.Second
			s.Apps["shop"] = policy.App{Title: strings.Repeat("宽", 64)} // makes the mail so long that it takes two writes
		}
		t.Run(string(c.rule.Stage)+" "+c.want, func(t *testing.T) {
			onTheWire(t, change, smtptest.Script{Rules: []smtptest.Rule{c.rule}}, func(r *wire) {
				a := r.SendTo(vtest.Ana)
				r.Sleep(11 * time.Minute) // the service waits ten minutes for an answer to the dot
				r.Want("in the end", fmt.Sprintf("%s at attempt %d, %d mails, %d places", r.Status(a), r.NewestSend(a.View.ID).Attempt,
					len(r.server.Messages()), r.QuotaOf("").Rules[2].Used), c.want)
			})
		})
	}
}

// The row and the log distinguish a server that was not tried, because it was set aside, from a
// server that could not be reached.
func TestServerSetAside(t *testing.T) {
	onTheWire(t, nil, smtptest.Script{}, func(r *wire) {
		r.down.Store(true)
		for n, want := range []string{"dial", "dial", "dial", "aside"} {
			r.WantStatus(r.SendTo(vtest.NthAddress(n)), "queued temporary_"+want)
		}
		r.SendTo(vtest.NthAddress(4))
		r.Want("lines of the log on it", strings.Count(r.Printed.String(), "stage=aside"), 1)
		r.down.Store(false)
		r.Sleep(10 * time.Minute) // until its connection is closed, too
		r.down.Store(true)
		for n := range 5 {
			r.SendTo(vtest.NthAddress(5 + n))
		}
		r.Want("lines once it was in use again", strings.Count(r.Printed.String(), "stage=aside"), 2)
	})
}

// With default settings, a spike is not refused, since the throughput grows with the connections.
// All mails have left 40 s after the spike began. Strangers' mails have fewer connections, and have
// left after 63 s.
func TestASpikeIsTaken(t *testing.T) {
	for within, stranger := range map[time.Duration]bool{40 * time.Second: false, 63 * time.Second: true} {
		onTheWire(t, nil, smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Dot, Delay: 300 * time.Millisecond}}}, func(r *wire) {
			began := time.Now()
			for n := range 2000 {
				caller := vtest.BackEnd
				if stranger {
					caller = vtest.ForStranger
					caller.IP = netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
				}
				r.AskAt(r.Svc, vtest.AskFor(vtest.NthAddress(n), vtest.By(caller)), true)
				r.Sleep(3 * time.Second / 2000)
			}
			r.Sleep(within - time.Since(began))
			r.Want("mails", len(r.server.Messages()), 2000)
		})
	}
}

// While every server is suspended, one send is tried every five seconds. The others wait unchanged:
// the log has no lines and the database no changes for them, however many there are. When a server
// is in use again, all mails leave within the first retry and a tick, each once. A send that
// expires meanwhile ends and gives its place back. After a fifth of a code's life, no more sends
// are admitted.
func TestSendsWaitWhileEveryServerIsSuspended(t *testing.T) {
	onTheWire(t, vtest.DefaultTick(func(s *vtest.Settings) {
		brief := s.Purposes["default"]
		brief.Name, brief.TTL, brief.PolicyPurposes, brief.Policy.Name = "brief", time.Minute, []string{"brief"}, "brief"
		s.Purposes["brief"] = brief
	}), smtptest.Script{}, func(r *wire) {
		r.down.Store(true)
		const n, rest = 450, 5 * time.Second
		var all []verification.Answer
		began := time.Now()
		for i := range n {
			a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.NthAddress(i), vtest.For([]string{"brief", "", ""}[i%3])))
			if outage := time.Since(began); i%3 == 0 && outage > 14*time.Second {
				r.Want("a brief one is refused", errors.Is(err, fault.Unavailable), true)
			} else if i%3 != 0 || outage < 12*time.Second {
				r.NoError(err)
			}
			if err == nil {
				all = append(all, a)
			}
			r.Sleep(200 * time.Millisecond)
		}
		lines, attempts := strings.Count(r.Printed.String(), "delivery attempt failed"), 0
		if most := int(90*time.Second/rest) + 5; lines > most {
			t.Errorf("%d lines of attempts in 90 s, want at most %d", lines, most)
		}
		for _, a := range all {
			attempts += r.NewestSend(a.View.ID).Attempt
		}
		// each mail may have one attempt, and another one if it was tried as a probe or expired
		if most := n + lines + n/3; attempts > most {
			t.Errorf("%d attempts of %d sends, want at most %d", attempts, n, most)
		}
		for _, a := range all {
			if time.Now().After(a.View.ExpiresAt.Add(2 * time.Second)) {
				r.WantStatus(a, "failed expired")
				r.Want("its place is spent", r.NewestSend(a.View.ID).Counts, false)
			}
		}
		r.down.Store(false)
		r.Sleep(rest + 4*time.Second)
		mails := map[string]int{}
		for id, times := range r.server.ByID() {
			send, _, _ := strings.Cut(id, ".")
			mails[send] += times
		}
		for i, a := range all {
			got, n := r.Status(a), mails[a.View.Send.ID]
			if lives := time.Now().Before(a.View.ExpiresAt); lives && (got != "sent" || n != 1) ||
				got == "failed expired" && n != 0 || n > 1 {
				t.Errorf("%d: %s with %d mails, its code lives: %v", i, got, n, lives)
			}
		}
	})
}
