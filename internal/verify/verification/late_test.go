package verification_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/limit/admission"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// slowServer is a mail server with few connections. Mails without a connection wait in order.
type slowServer struct {
	*vtest.MailServer
	conns chan struct{}
}

func (s slowServer) ConnLimit() int { return cap(s.conns) }

func (s slowServer) MaxConns() int { return cap(s.conns) }

func (s slowServer) Send(ctx context.Context, m delivery.Mail) (delivery.Result, error) {
	s.conns <- struct{}{}
	defer func() { <-s.conns }()
	return s.MailServer.Send(ctx, m)
}

func ttl(d time.Duration) func(*vtest.Settings) {
	return func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.TTL = d
		s.Purposes["default"] = p
	}
}

// tooLate reports whether a send was refused because mail is slow. Any other error fails the test.
func tooLate(r *vtest.Rig, err error) bool {
	r.Helper()
	full, refused := errors.AsType[*admission.OverloadedError](err)
	if !refused {
		r.NoError(err)
	} else if full.Slow != recipient.Email || full.RetryAfter < time.Second || full.RetryAfter > time.Minute {
		r.Errorf("%+v", full)
	}
	return refused
}

// Strangers ask for many more mails than a slow server accepts. Only their sends are refused. Sends
// of a secret key are admitted. Sends of another app's strangers are admitted, too, because the
// mails of two apps take turns.
func TestAStrangersBacklogRefusesNoOthers(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) {
		ttl(time.Minute)(s)
		s.Tick = time.Second
	}, func(r *vtest.Rig) {
		r.MailServer.Delay = 2 * time.Second
		r.Svc = r.ReplicaOn(r.Store, slowServer{r.MailServer, make(chan struct{}, 4)}, nil)
		r.Start()
		other, refused := vtest.ForStranger, 0
		other.App = "club"
		for n := range 1000 {
			_, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.NthAddress(n), vtest.By(vtest.ForStranger)))
			if tooLate(r, err) {
				refused++
			}
			if n%200 == 199 {
				for i, c := range []verification.Caller{vtest.BackEnd, other} {
					r.AskAt(r.Svc, vtest.AskFor(vtest.NthAddress(10_000+10*n+i), vtest.By(c)), true)
				}
			}
			r.Sleep(50 * time.Millisecond)
		}
		r.Want("strangers are refused", refused > 500, true)
	})
}

// A resend by ID is refused if the wait is too long for the rest of its code's life, and a new code
// if the wait is too long for a full life. A full life also counts if a resend opens a new code,
// because the old code has ended or has little life left. For a caller's own code, the life in the
// request counts.
func TestAResendIsJudgedByWhatIsLeft(t *testing.T) {
	vtest.InBubbleIdle(t, ttl(5*time.Minute), func(r *vtest.Rig) {
		r.MailServer.Delay = time.Second
		r.Svc = r.ReplicaOn(r.Store, slowServer{r.MailServer, make(chan struct{}, 1)}, nil)
		r.Start()
		own := vtest.AskFor("")
		own.Code, own.TTL = "123456", 110*time.Second
		backlog := func(from, to int) {
			for n := from; n < to; n++ {
				own.To = vtest.NthAddress(n)
				r.AskAt(r.Svc, own, true)
			}
			r.Sleep(2 * time.Second)
		}
		refused := func(what string, want bool, ask verification.Request) {
			r.Helper()
			_, err := r.Svc.Send(r.Context(), ask)
			r.Want(what, tooLate(r, err), want)
		}
		resending := func() verification.Request {
			a := r.AskAt(r.Svc, vtest.AskFor(vtest.NthAddress(0)), true)
			return vtest.AskFor("", vtest.Resending(a.View.ID))
		}
		resend := resending()
		r.Sleep(3 * time.Minute)
		backlog(1, 101)
		refused("a resend of a code with two minutes", true, resend)
		own.To, own.TTL = vtest.Ana, 220*time.Second
		refused("a wait of nearly half of a code's life", true, own)
		own.TTL = time.Minute
		refused("a code of a minute of the caller's, which goes out first", false, own)
		r.Sleep(67 * time.Second)
		refused("a resend of a code with little life", false, resend)
		r.Sleep(10 * time.Minute)
		backlog(101, 121)
		refused("a resend of a code that has ended", false, resend)
	})
}

// downFor is a mail server that does not answer for recipients with a prefix.
type downFor struct {
	*vtest.MailServer
	prefix string
}

func (d downFor) Send(ctx context.Context, m delivery.Mail) (delivery.Result, error) {
	if strings.HasPrefix(m.To, d.prefix) {
		return delivery.Result{Provider: "mx"}, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial}
	}
	return d.MailServer.Send(ctx, m)
}

// Messages that are postponed while others go out at once cause no refusals, however many they are,
// and however rarely other callers ask.
func TestPostponedMessagesRefuseNoOthers(t *testing.T) {
	for _, postponed := range []int{3, 40} {
		for _, every := range []time.Duration{20 * time.Second, 45 * time.Second, 130 * time.Second} {
			vtest.InBubbleIdle(t, func(s *vtest.Settings) { ttl(10 * time.Minute)(s); s.Tick = time.Second }, func(r *vtest.Rig) {
				r.Svc = r.ReplicaOn(r.Store, downFor{r.MailServer, "down"}, nil)
				r.Start()
				for n := range postponed {
					r.AskAt(r.Svc, vtest.AskFor(fmt.Sprintf("down%d@example.com", n)), true)
				}
				for n := range int(12 * time.Minute / every) {
					r.Sleep(every)
					stranger := vtest.ForStranger
					stranger.IP = netip.AddrFrom4([4]byte{10, 1, byte(n), 1})
					r.AskAt(r.Svc, vtest.AskFor(vtest.NthAddress(n), vtest.By(stranger)), true)
				}
			})
		}
	}
}

// A server accepts fewer mails than there are sends. If a message is expected to go out after half
// of its code's life, the send is refused at once. For a stranger's message, a fifth counts instead
// of half. No send expires, and refused sends count nowhere. Afterwards all sends are admitted
// again.
func TestWhatWouldGoOutTooLateIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		caller      verification.Caller
		conns       int // of each replica
		replicas    int
		every, last time.Duration // every is the time between two sends, and last is the duration of all sends
		oldest      time.Duration
		ownNetworks bool // each send comes from its own network, and goes to one of four domains
	}{
		"secret key, 2 of 20 a second": {vtest.BackEnd, 4, 1, time.Second / 20, 50 * time.Second, 30 * time.Second, false},
		"strangers, 1 of 20 a second":  {vtest.ForStranger, 4, 1, time.Second / 20, 50 * time.Second, 25 * time.Second, true},
		"strangers of one network":     {vtest.ForStranger, 4, 1, time.Second / 20, 50 * time.Second, 25 * time.Second, false},
		"secret key, 5 of 50 a second": {vtest.BackEnd, 10, 1, time.Second / 50, 5 * time.Minute, 30 * time.Second, false},
		"two replicas":                 {vtest.BackEnd, 2, 2, time.Second / 20, 50 * time.Second, 30 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleIdle(t, ttl(time.Minute), func(r *vtest.Rig) {
				r.MailServer.Delay = 2 * time.Second
				var replicas []*vtest.Service
				for range c.replicas {
					svc, stop := r.StartReplica(slowServer{r.MailServer, make(chan struct{}, c.conns)})
					defer stop()
					replicas = append(replicas, svc)
				}
				ask := vtest.AskFor(vtest.Ana, vtest.By(c.caller), vtest.WithKey("again"))
				accepted, refused := 0, 0
				for n := range int(c.last / c.every) {
					svc := replicas[n%len(replicas)]
					to, by := vtest.NthAddress(n), c.caller
					if c.ownNetworks {
						to, by.IP = fmt.Sprintf("person-%d@n%d.example", n, n%4), netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
					}
					_, err := svc.Send(r.Context(), vtest.AskFor(to, vtest.By(by)))
					if tooLate(r, err) {
						if refused++; refused%100 == 1 {
							_, err := svc.Send(r.Context(), ask)
							r.Want("Ana's is refused, too", tooLate(r, err), true)
							refused++
						}
					} else {
						accepted++
					}
					r.Sleep(c.every)
				}
				r.WantCounted("of the refused one", 0)
				r.Sleep(time.Minute)
				oldest := time.Duration(0)
				for _, row := range r.Rows() {
					oldest = max(oldest, row.FinishedAt.Sub(row.LoggedAt))
					r.Want("status", row.Status, "sent")
				}
				if oldest > c.oldest || oldest < c.oldest/2 {
					r.Errorf("the oldest mail is %v old, want up to %v", oldest, c.oldest)
				}
				r.WantMails(accepted)
				counted := 0
				for _, svc := range replicas {
					known, strangers, last := svc.SlowRefusals(recipient.Email)
					r.Want("told by /readyz", !last.IsZero(), c.caller.Trust.IsKnown() || c.ownNetworks)
					counted += known + strangers
					r.Want("refusals of strangers", strangers > 0, !c.caller.Trust.IsKnown())
				}
				r.Want("refusals", counted, refused)
				r.AskAt(replicas[0], ask, true)
			})
		})
	}
}

// A server takes 8 s for each mail, more than maxPatience of package outbox, and strangers ask for
// more mails than it accepts. Sends that would go out too late are refused, and each admitted mail
// arrives.
func TestASlowServersMailsArrive(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) { ttl(10 * time.Minute)(s); s.Tick = time.Second }, func(r *vtest.Rig) {
		r.MailServer.Delay = 8 * time.Second
		svc, stop := r.StartReplica(slowServer{r.MailServer, make(chan struct{}, 10)})
		defer stop()
		refused, admitted := 0, []string{}
		for n := range 1200 {
			by := vtest.ForStranger
			by.IP = netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
			a, err := svc.Send(r.Context(), vtest.AskFor(fmt.Sprintf("person-%d@n%d.example", n, n%40), vtest.By(by)))
			if tooLate(r, err) {
				refused++
			} else {
				admitted = append(admitted, a.View.ID)
			}
			r.Sleep(time.Second / 2)
		}
		r.Sleep(11 * time.Minute)
		ends := map[store.Status]int{}
		for _, id := range admitted {
			ends[r.NewestSend(id).Status]++
		}
		if refused < 100 || len(ends) != 1 || ends[store.Sent] == 0 {
			r.Errorf("%d are refused, the others %v", refused, ends)
		}
	})
}
