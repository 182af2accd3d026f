package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// way is a carrier that records in tried that it got a message.
type way struct {
	name  string
	fails map[int]*delivery.Error // by the number of the message among those of all ways, from 1 on
	tried *triedWays
}

// triedWays has the name of the way that got each message, in their order.
type triedWays struct {
	mu    sync.Mutex
	names []string
}

func (tw *triedWays) add(name string) (n int) {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	tw.names = append(tw.names, name)
	return len(tw.names)
}

func (tw *triedWays) all() []string {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	return slices.Clone(tw.names)
}

func (w way) Name() string { return w.name }

func (w way) Send(context.Context, sms.Message) (delivery.Result, *delivery.Error) {
	if fail := w.fails[w.tried.add(w.name)]; fail != nil {
		return delivery.Result{}, new(*fail) // the caller may change it
	}
	return delivery.Result{}, nil
}

// server is a mail server that records its mails like a way.
type server struct {
	mailserver.Server
	way
}

func (s server) Address() string { return s.name + ":25" }

func (s server) ConnLimit() int { return 1 }

func (s server) MaxConns() int { return 1 }

func (s server) Deliver(ctx context.Context, _ time.Duration, begin func() bool, _ *delivery.RenderedMail) (string, bool, *delivery.Error) {
	if !begin() {
		return "", false, nil
	}
	_, fail := s.Send(ctx, sms.Message{})
	return "", true, fail
}

// Each resend uses a server or carrier that its verification has not used, if there is one.
// Otherwise it uses the preferred one.
func TestResendsUseAnotherServerOrCarrier(t *testing.T) {
	type failures = map[int]*delivery.Error // by the number of the try
	rejected := &delivery.Error{Class: delivery.Rejected, Stage: delivery.StageAnswer}
	noMailbox := &delivery.Error{Class: delivery.Rejected, About: delivery.AboutMailbox}
	noAddress := &delivery.Error{Class: delivery.Rejected, About: delivery.AboutAddress}
	away := &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial}
	pause := &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAnswer, About: delivery.AboutPace, RetryAfter: time.Hour}
	for name, c := range map[string]struct {
		ways, prefixes string // the names of the ways, and the prefixes that the second carrier serves
		same           bool
		fails          failures
		want           string // the ways that a send and three resends try
		mails          bool   // the case is also for mail servers, not only for carriers
	}{
		"two ways":                            {ways: "a b", want: "a b a a", mails: true},
		"three ways":                          {ways: "a b c", want: "a b c a", mails: true},
		"one way":                             {ways: "a", want: "a a a a", mails: true},
		"resend: same":                        {ways: "a b", same: true, want: "a a a a", mails: true},
		"resend: same, no such mailbox":       {ways: "a b", same: true, fails: failures{1: away, 3: noMailbox}, want: "a b a b a a", mails: true},
		"the second asks for a pause":         {ways: "a b", same: true, fails: failures{1: away, 2: pause}, want: "a b a a a a", mails: true},
		"the first asks for a pause":          {ways: "a b", same: true, fails: failures{1: pause, 2: away}, want: "a b a a a a", mails: true},
		"refused by the first":                {ways: "a b", fails: failures{1: rejected}, want: "a b a a", mails: true},
		"the other one is away":               {ways: "a b", fails: failures{2: away}, want: "a b a b a", mails: true},
		"the other one refuses":               {ways: "a b", fails: failures{2: rejected}, want: "a b a b a", mails: true},
		"the other one knows no such mailbox": {ways: "a b", fails: failures{2: noMailbox}, want: "a b a b a", mails: true},
		"none of two others knows it":         {ways: "a b c", fails: failures{2: noAddress, 3: noMailbox}, want: "a b c a b c", mails: true},
		"the first took none":                 {ways: "a b", fails: failures{1: rejected, 2: noAddress}, want: "a b a a", mails: true},
		"the person wants none": {
			ways: "a b", fails: failures{2: {Class: delivery.Rejected, About: delivery.AboutAddress, Reason: sms.ReasonOptedOut}},
			want: "a b a a",
		},
		"held by the first": {
			ways: "a b", fails: failures{
				1: {Class: delivery.Rejected, About: delivery.AboutRecipient, Reason: sms.ReasonCarrierLimit, Hold: time.Millisecond},
			},
			want: "a a b a",
		},
		"of other prefixes": {ways: "a b", prefixes: "+1", want: "a a a a"},
	} {
		for _, ch := range []recipient.Channel{recipient.SMS, recipient.Email} {
			if ch == recipient.Email && !c.mails {
				continue
			}
			vtest.InBubbleIdle(t, func(s *vtest.Settings) {
				vtest.ServeCountries("DE")(s)
				s.ResendOther = map[recipient.Channel]bool{ch: !c.same}
			}, func(r *vtest.Rig) {
				var tried triedWays
				var servers []mailserver.Server
				var routes []sms.Route
				for n, name := range strings.Fields(c.ways) {
					w := way{name: name, fails: c.fails, tried: &tried}
					servers = append(servers, server{way: w})
					routes = append(routes, sms.Route{Carrier: w})
					if n == 1 {
						routes[n].Prefixes = strings.Fields(c.prefixes)
					}
				}
				r.Svc = r.ReplicaOn(r.Store, mailserver.New(servers...), sms.NewCarriers(routes, sms.CarriersOptions{}))
				r.Start()
				ids := map[string]bool{}
				for range 4 {
					ask := vtest.TextTo(vtest.Mobile)
					if ch == recipient.Email {
						ask = verification.Request{Caller: vtest.BackEnd, Channel: "email", To: vtest.Ana}
					}
					ids[r.Send(ask).View.ID] = true
					r.Sleep(61 * time.Second)
				}
				vtest.Equal(r, name+", "+string(ch), strings.Join(tried.all(), " "), c.want)
				vtest.Equal(r, name+", "+string(ch), len(ids), 1)
			})
		}
	}
}

// The server or carrier that accepted the message before is set aside. If the other one refuses a
// resend, the resend waits for the first, even if the other one says that there is no such mailbox.
// That also holds if the other one is tried only because the first is set aside.
func TestResendWaitsForAServerOrCarrierSetAside(t *testing.T) {
	for n, ch := range []recipient.Channel{recipient.SMS, recipient.Email, recipient.Email, recipient.Email} {
		other, about := n < 3, []delivery.About{"", "", delivery.AboutMailbox, delivery.AboutMailbox}[n]
		vtest.InBubbleIdle(t, func(s *vtest.Settings) {
			vtest.ServeCountries("DE")(s)
			vtest.SuppressBounces(s)
			s.ResendOther = map[recipient.Channel]bool{ch: other}
		}, func(r *vtest.Rig) {
			var tried triedWays
			a, b := way{"a", map[int]*delivery.Error{}, &tried}, way{"b", map[int]*delivery.Error{}, &tried}
			for n := range delivery.FaultsToOpenBreaker {
				a.fails[2+2*n] = &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial}
			}
			for n := range 9 {
				b.fails[2+2*delivery.FaultsToOpenBreaker+n] = &delivery.Error{
					Class: delivery.Rejected, Stage: delivery.StageAnswer, About: about,
				}
			}
			r.Svc = r.ReplicaOn(r.Store, mailserver.New(server{way: a}, server{way: b}),
				sms.NewCarriers([]sms.Route{{Carrier: a}, {Carrier: b}}, sms.CarriersOptions{}))
			r.Start()
			send := func(n int) verification.Answer {
				if ch == recipient.SMS {
					return r.Send(vtest.TextTo(vtest.NthNumber(n)))
				}
				return r.SendTo(fmt.Sprintf("n%d@example.com", n))
			}
			send(0)
			r.Sleep(61 * time.Second)
			for n := range delivery.FaultsToOpenBreaker {
				send(1 + n)
			}
			again := send(0)
			r.Sleep(time.Second)
			vtest.Equal(r, string(ch)+", at first: Status", r.Status(again), "queued temporary_aside")
			vtest.Equal(r, string(ch)+", at first: tried", strings.Join(tried.all(), " "), "a a b a b a b b")
			r.Sleep(9 * time.Second)
			r.Want("suppressions", len(r.Suppressions()), 0)
			vtest.Equal(r, string(ch)+", at last", r.Status(again), "sent")
			vtest.Equal(r, string(ch)+", at last", tried.all()[len(tried.all())-1], "a")
			vtest.Equal(r, string(ch)+", at last", len(tried.all()) < 13, true)
		})
	}
}
