package smtp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// A server may answer anything, and at any time, from RCPT on for recipients that strangers chose.
// It is not set aside, keeps its number of connections, and gets other mails at once.
func TestPoolIgnoresFaultsOfStrangersRecipients(t *testing.T) {
	const chosen, held, silence = "x@chosen.example", 10 * time.Second, 30 * time.Second
	for name, c := range map[string]struct {
		rule    smtptest.Rule // at RCPT by default
		conns   int
		servers int // 0: one
		lasts   time.Duration
	}{
		"held, then 450":         {rule: smtptest.Rule{Delay: 10 * time.Second, Reply: "450 4.1.8 no"}, lasts: held},
		"held, of 10":            {rule: smtptest.Rule{Delay: 10 * time.Second, Reply: "450 4.1.8 no"}, lasts: held, conns: 10},
		"held by two servers":    {rule: smtptest.Rule{Stall: true}, lasts: 5*time.Second + silence, servers: 2},
		"never answered":         {rule: smtptest.Rule{Stall: true}, lasts: silence},
		"never answered to DATA": {rule: smtptest.Rule{Stage: smtptest.Data, Stall: true}, lasts: silence},
		"ended":                  {rule: smtptest.Rule{Close: true}},
		"421":                    {rule: smtptest.Rule{Reply: "421 4.7.0 later", Close: true}},
		"421 of two":             {rule: smtptest.Rule{Reply: "421 4.7.0 later", Close: true}, servers: 2},
		"421 to DATA":            {rule: smtptest.Rule{Stage: smtptest.Data, Reply: "421 4.3.2 busy", Close: true}},
		"421 after the content":  {rule: smtptest.Rule{Stage: smtptest.Dot, Reply: "421 4.3.2 busy", Close: true}},
		"432":                    {rule: smtptest.Rule{Reply: "432 4.3.2 concurrent"}},
		"452 4.3.2":              {rule: smtptest.Rule{Reply: "452 4.3.2 busy"}},
		"450 4.7.1":              {rule: smtptest.Rule{Reply: "450 4.7.1 greylisted"}},
		"451":                    {rule: smtptest.Rule{Reply: "451 later"}},
		"454":                    {rule: smtptest.Rule{Reply: "454 throttled"}},
		"530":                    {rule: smtptest.Rule{Reply: "530 5.7.0 authentication required"}},
	} {
		for _, extensions := range [][]string{nil, pipelining} {
			servertest.Bubble(t, func(t *testing.T) {
				c.rule.To = chosen
				if c.rule.Stage == "" {
					c.rule.Stage = smtptest.Rcpt
				}
				script := smtptest.Misbehaving(c.rule)
				script.Extensions = extensions
				s := smtptest.New(t, script).Sender(t, between(0, c.conns))
				for range c.servers - 1 {
					s = slices.Concat(s, smtptest.New(t, script).Sender(t))
				}
				sendAll(t, s, 1, 5)
				before := s.ConnLimit()
				var all sync.WaitGroup
				for n := range 24 {
					all.Go(func() {
						time.Sleep(time.Duration(n/8) * (c.lasts + time.Second))
						mail := smtptest.Sample(100 + n)
						mail.To, mail.Stranger = chosen, true
						began := time.Now()
						_, err := s.Send(t.Context(), mail)
						least := c.lasts
						if c.servers == 2 && c.lasts > 0 { // a mail beyond the first server's share goes to the second server at once
							least = silence
						}
						if took := time.Since(began); took < least || took > c.lasts+time.Second {
							t.Errorf("%s: %v after %v", name, err, took)
						} else if fail, _ := err.(*delivery.Error); fail == nil || fail.About != delivery.AboutRecipient {
							t.Errorf("%s: %+v", name, fail)
						}
					})
				}
				for n := range 40 {
					time.Sleep(time.Second / 2)
					began := time.Now()
					sendAll(t, s, 1000+n, 1000+n)
					if took := time.Since(began); took > 200*time.Millisecond {
						t.Errorf("%s: another mail takes %v", name, took)
					}
				}
				all.Wait()
				for _, h := range s.Health() {
					servertest.Same(t, name+": up", h.Up && h.Since.IsZero(), true)
				}
				servertest.Same(t, name+": as many connections", s.ConnLimit() >= before, true)
			})
		}
	}
}

// A mail that gives way to others ends its wait at once, at every stage. The server is not at
// fault, and no other server is tried. Before the final dot the mail was certainly not accepted.
// After the dot, the outcome is unknown.
func TestSendGivesWayAtEachStage(t *testing.T) {
	for stage, class := range map[smtptest.Stage]delivery.ErrorClass{
		smtptest.Greet: delivery.Temporary, smtptest.Hello: delivery.Temporary, smtptest.Mail: delivery.Temporary,
		smtptest.Rcpt: delivery.Temporary, smtptest.Data: delivery.Temporary, smtptest.Dot: delivery.Unknown,
	} {
		for name, rule := range map[string]smtptest.Rule{
			"silent":    {Stage: stage, Stall: true},
			"in pieces": {Stage: stage, Reply: strings.Repeat("250-wait\r\n", 100) + "250 ok", Slow: true, Pause: 100 * time.Millisecond},
		} {
			servertest.Bubble(t, func(t *testing.T) {
				server, s := inBubble(t, smtptest.Misbehaving(rule))
				s = slices.Concat(s, server.Sender(t))
				ctx, giveWay := context.WithCancelCause(delivery.WithHandover(t.Context()))
				began := time.Now()
				time.AfterFunc(3*time.Second, func() {
					servertest.Same(t, name+" "+string(stage)+": handed over before the end", delivery.HandedOver(ctx), class == delivery.Unknown)
					giveWay(delivery.ErrGaveWay)
				})
				mail := smtptest.Sample(1)
				mail.Stranger = true
				_, err := s.Send(ctx, mail)
				fail, _ := err.(*delivery.Error)
				if fail == nil || fail.Class != class || fail.About != delivery.AboutUs || !errors.Is(fail.Err, delivery.ErrGaveWay) {
					t.Fatalf("%s %s: %+v", name, stage, fail)
				}
				servertest.Same(t, "after", time.Since(began), 3*time.Second)
				servertest.Same(t, "up", s.Health()[0].Up && s.Health()[0].Since.IsZero(), true)
				servertest.Same(t, "connections", server.Connections(), 1)
			})
		}
	}
}

// If the server ends the connection at a stranger's recipient, only that connection is lost, and
// all idle connections stay.
func TestAStrangersRecipientEndsOneConnection(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Misbehaving(
			smtptest.Rule{Stage: smtptest.Rcpt, To: "x@chosen.example", Reply: "421 later", Close: true}, takes300ms.Rules[0]))
		burst(t, s, 0, 4)
		mail := smtptest.Sample(100)
		mail.To, mail.Stranger = "x@chosen.example", true
		_, err := s.Send(t.Context(), mail)
		servertest.Same(t, "refused", err != nil, true)
		burst(t, s, 10, 4)
		servertest.Same(t, "connections", server.Connections(), 5)
	})
}

// OnAttempt gets a failure with Chosen if a stranger's mail is refused because of its recipient.
// Chosen is not set if the server refuses the mail for another reason, or if the mail is not a
// stranger's.
func TestARefusalOfAStrangersRecipient(t *testing.T) {
	for reply, c := range map[string]struct{ stranger, other bool }{
		"550 5.1.1 no such user": {true, false}, "450 4.2.1 later": {true, false}, "550 5.7.1 relaying denied": {false, false},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			_, s := inBubble(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Reply: reply}))
			var seen []bool
			s.OnAttempt(func(_ context.Context, _ string, fail *delivery.Error, _ time.Duration) {
				seen = append(seen, fail.Chosen)
			})
			for _, stranger := range []bool{true, false} {
				mail := smtptest.Sample(1)
				mail.Stranger = stranger
				_, err := s.Send(t.Context(), mail)
				servertest.Same(t, reply+" refused", err != nil, true)
			}
			servertest.Same(t, reply, fmt.Sprint(seen), fmt.Sprint([]bool{c.stranger, c.other}))
		})
	}
}
