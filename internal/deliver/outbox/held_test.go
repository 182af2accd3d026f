package outbox_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// browserIn is a browser in the nth network.
func browserIn(n int) verification.Caller {
	browser := vtest.Browser
	browser.IP = netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
	return browser
}

// arrival returns how long after its send a mail arrived; an hour means that it has not arrived.
func (w *wire) arrival(to string, asked time.Time) time.Duration {
	for _, m := range w.server.Messages() {
		if m.To[0] == to {
			return m.At.Sub(asked)
		}
	}
	return time.Hour
}

// One browser asks for 95 codes to domains of its own, for which the mail server answers RCPT, DATA
// or the final dot late, in pieces, never, or as if overloaded. In the next minute other browsers'
// sends are admitted, and their mails leave within 10 s. Mails of secret keys leave at once.
func TestHeldRecipientsDelayNoOthers(t *testing.T) {
	const chosen = ".chosen.example"
	held := smtptest.Rule{Delay: 10 * time.Second, Reply: "450 4.1.8 no"}
	dot := smtptest.Rule{Stage: smtptest.Dot, Delay: 280 * time.Second}
	data := smtptest.Rule{Stage: smtptest.Data, Delay: 29 * time.Second}
	inPieces := func(at smtptest.Stage) smtptest.Rule { // a line each second
		line := "250-still at it\r\n"
		return smtptest.Rule{Stage: at, Reply: strings.Repeat(line, 280) + "250 ok", Slow: true, Pause: time.Second / time.Duration(len(line))}
	}
	for name, c := range map[string]struct {
		rule  smtptest.Rule
		conns int
		life  time.Duration
	}{
		"held for 10 s": {rule: held}, "of 10 connections": {rule: held, conns: 10}, "of 4": {rule: held, conns: 4}, "of 1": {rule: held, conns: 1},
		"codes of a minute": {rule: held, conns: 10, life: time.Minute},
		"held for 25 s":     {rule: smtptest.Rule{Delay: 25 * time.Second}},
		"never answered":    {rule: smtptest.Rule{Stall: true}},
		"421":               {rule: smtptest.Rule{Reply: "421 4.7.0 later", Close: true}},
		"452 4.3.2":         {rule: smtptest.Rule{Reply: "452 4.3.2 busy"}},
		"450 4.7.1":         {rule: smtptest.Rule{Reply: "450 4.7.1 greylisted"}},
		"451":               {rule: smtptest.Rule{Reply: "451 later"}},
		"in pieces":         {rule: inPieces(smtptest.Rcpt)},
		"DATA":              {rule: data}, "DATA, of 10 connections": {rule: data, conns: 10}, "DATA, of 4": {rule: data, conns: 4}, "DATA, of 1": {rule: data, conns: 1},
		"DATA, never answered": {rule: smtptest.Rule{Stage: smtptest.Data, Stall: true}},
		"the dot":              {rule: dot}, "the dot, of 10 connections": {rule: dot, conns: 10}, "the dot, of 4": {rule: dot, conns: 4},
		"the dot for 25 s":  {rule: smtptest.Rule{Stage: smtptest.Dot, Delay: 25 * time.Second}},
		"the dot in pieces": {rule: inPieces(smtptest.Dot)},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Stage, c.rule.To = cmp.Or(c.rule.Stage, smtptest.Rcpt), chosen
			live := func(s *vtest.Settings) {
				s.Tick = time.Second
				if p := s.Purposes["default"]; c.life > 0 {
					p.TTL = c.life
					s.Purposes["default"] = p
				}
			}
			onTheWireWith(t, live, smtptest.Misbehaving(c.rule), func(s *smtp.Config) { s.MaxConns = c.conns }, func(r *wire) {
				asked := map[string]time.Time{}
				ask := func(to string, by verification.Caller) {
					asked[to] = time.Now()
					if a, err := r.Svc.Send(r.Context(), vtest.AskFor(to, vtest.By(by))); err != nil || !a.Admitted {
						t.Errorf("%s, after %v: %v, %v", to, time.Since(r.began), err, a.Quota.Violated())
					}
				}
				for n := range 95 {
					ask(fmt.Sprintf("x@n%d%s", n, chosen), browserIn(0))
				}
				for n := range 48 {
					r.Sleep(time.Minute / 48)
					if n%2 == 0 {
						ask(fmt.Sprintf("honest-%d@example.com", n), browserIn(1+n))
					}
					if c.conns != 1 { // else there is none to leave to others
						ask(fmt.Sprintf("own-%d@example.com", n), vtest.BackEnd)
					}
				}
				r.Sleep(time.Minute)
				latest := map[bool]time.Duration{}
				for to, at := range asked {
					own := to[:2] == "ow"
					if to[:2] != "x@" {
						latest[own] = max(latest[own], r.arrival(to, at))
					}
				}
				if latest[false] > 10*time.Second || latest[true] > 200*time.Millisecond {
					t.Errorf("the last mail of a browser came after %v, of a secret key after %v", latest[false], latest[true])
				}
			})
		})
	}
}

// A server that takes 12 s to answer RCPT gets the mail of each stranger all the same.
func TestStrangersMailsByASlowServer(t *testing.T) {
	for conns, mails := range map[int]int{0: 48, 4: 24, 1: 12} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			slow := smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Delay: 12 * time.Second})
			tick := func(s *vtest.Settings) { s.Tick = time.Second }
			onTheWireWith(t, tick, slow, func(s *smtp.Config) { s.MaxConns = conns }, func(r *wire) {
				for n := range mails {
					r.AskAt(r.Svc, vtest.AskFor(vtest.NthAddress(n), vtest.By(browserIn(n))), true)
					r.Sleep(time.Second)
				}
				r.Sleep(9 * time.Minute)
				smtptest.AllOnce(t, mails, r.server)
			})
		})
	}
}
