package smtp_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// Whatever a server answers from RCPT on for recipients that strangers chose, and however late, the
// server is not set aside, keeps its number of connections, and gets other mails at once.
func TestStrangersChooseTheAnswerToRCPT(t *testing.T) {
	const chosen, held = "x@chosen.example", 5 * time.Second
	for name, c := range map[string]struct {
		rule    smtptest.Rule // at RCPT by default
		conns   int
		servers int // 0: one
		lasts   time.Duration
	}{
		"held, then 450":         {rule: smtptest.Rule{Delay: 10 * time.Second, Reply: "450 4.1.8 no"}, lasts: held},
		"held, of 10":            {rule: smtptest.Rule{Delay: 10 * time.Second, Reply: "450 4.1.8 no"}, lasts: held, conns: 10},
		"held by two servers":    {rule: smtptest.Rule{Delay: 25 * time.Second}, lasts: 2 * held, servers: 2},
		"never answered":         {rule: smtptest.Rule{Stall: true}, lasts: held},
		"never answered to DATA": {rule: smtptest.Rule{Stage: smtptest.Data, Stall: true}, lasts: held},
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
						if took := time.Since(began); took < c.lasts || took > c.lasts+time.Second {
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

// A stranger's mail that may wait longer does, until others wait.
func TestAStrangersMailGivesWay(t *testing.T) {
	for n, want := range []time.Duration{12 * time.Second, 8 * time.Second} {
		servertest.Bubble(t, func(t *testing.T) {
			_, s := inBubble(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Delay: 12 * time.Second}))
			mail, began := smtptest.Sample(n), time.Now()
			mail.Stranger = true
			mail.GivesWay = func() bool { return n == 1 && time.Since(began) > 7*time.Second }
			_, err := s.Send(t.Context(), mail)
			servertest.Same(t, "sent", err == nil, n == 0)
			servertest.Same(t, "after", time.Since(began), want)
		})
	}
}

// A recipient for whom the server ends the connection costs that connection, and no idle one.
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

// A refusal that is about a stranger's recipient is told from one that is about the server, and
// from one of another mail.
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
