package outbox_test

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// browserIn returns a browser in the nth network.
func browserIn(n int) verification.Caller {
	browser := vtest.Browser
	browser.IP = netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
	return browser
}

// arrival returns the time between a request and the arrival of its mail. An hour means that the
// mail has not arrived.
func (w *wire) arrival(to string, asked time.Time) time.Duration {
	for _, m := range w.server.Messages() {
		if m.To[0] == to {
			return m.At.Sub(asked)
		}
	}
	return time.Hour
}

// attack describes requests of strangers for recipients whose mail server answers late.
type attack struct {
	rule     smtptest.Rule
	conns    int // 0: as many as the server accepts
	networks int
	life     time.Duration // of a code
}

// arrivals requests codes from the attack's networks for at least 95 domains, and in the next
// minute codes for honest browsers and for known people. It returns the longest time until a mail
// arrived: at a domain that others use (shared), at a domain that nobody used before (alone), and
// for known people.
func (a attack) arrivals(t *testing.T) (shared, alone, known time.Duration) {
	a.rule.To = "-chosen.example"
	live := func(s *vtest.Settings) {
		s.Tick = time.Second
		if p := s.Purposes["default"]; a.life > 0 {
			p.TTL = a.life
			s.Purposes["default"] = p
		}
	}
	onTheWireWith(t, live, smtptest.Misbehaving(a.rule), func(s *smtp.Config) { s.MaxConns = a.conns }, func(r *wire) {
		asked := map[string]time.Time{}
		ask := func(to string, by verification.Caller) {
			asked[to] = time.Now()
			if answer, err := r.Svc.Send(r.Context(), vtest.AskFor(to, vtest.By(by))); err != nil || !answer.Admitted {
				t.Errorf("%s, after %v: %v, %v", to, time.Since(r.began), err, answer.Quota.Violated())
			}
		}
		if a.networks > 1 { // so that the outbox has measured the server's usual time
			for n := range 10 {
				r.AskAt(r.Svc, vtest.AskFor(fmt.Sprintf("before-%d@example.org", n)), true)
				r.Sleep(time.Second)
			}
		}
		for n := range max(95, a.networks) {
			ask(fmt.Sprintf("x@n%d-chosen.example", n), browserIn(n%a.networks))
		}
		for n := range 48 {
			r.Sleep(time.Minute / 48)
			switch n % 4 {
			case 0:
				ask(fmt.Sprintf("shared-%d@example.com", n), browserIn(1000+n))
			case 2:
				ask(fmt.Sprintf("alone@n%d.example", n), browserIn(1000+n))
			}
			if a.conns != 1 { // strangers occupy the connection if there is only one
				ask(fmt.Sprintf("own-%d@example.com", n), vtest.BackEnd)
			}
		}
		r.Sleep(time.Minute)
		for to, at := range asked {
			switch took := r.arrival(to, at); to[:2] {
			case "sh":
				shared = max(shared, took)
			case "al":
				alone = max(alone, took)
			case "ow":
				known = max(known, took)
			}
		}
	})
	return shared, alone, known
}

// inPieces returns a rule by which the server answers one line each second.
func inPieces(at smtptest.Stage) smtptest.Rule {
	line := "250-still at it\r\n"
	return smtptest.Rule{Stage: at, Reply: strings.Repeat(line, 280) + "250 ok", Slow: true, Pause: time.Second / time.Duration(len(line))}
}

// Strangers ask for codes for domains of their own. The mail server answers RCPT, DATA or the final
// dot late, in pieces, never, or as if it were overloaded. The requests come from one to 200
// networks, and go to at least as many domains. In the next minute the sends of other browsers are
// admitted, and their mails leave within 10 s. Mails for known people leave at once.
func TestHeldRecipientsDelayNoOthers(t *testing.T) {
	held := smtptest.Rule{Delay: 10 * time.Second, Reply: "450 4.1.8 no"}
	dot := smtptest.Rule{Stage: smtptest.Dot, Delay: 280 * time.Second}
	data := smtptest.Rule{Stage: smtptest.Data, Delay: 29 * time.Second}
	all := map[string]attack{
		"held for 10 s": {rule: held}, "of 1": {rule: held, conns: 1},
		"codes of a minute": {rule: held, conns: 10, life: time.Minute},
		"held for 25 s":     {rule: smtptest.Rule{Delay: 25 * time.Second}},
		"421":               {rule: smtptest.Rule{Reply: "421 4.7.0 later", Close: true}},
		"452 4.3.2":         {rule: smtptest.Rule{Reply: "452 4.3.2 busy"}},
		"450 4.7.1":         {rule: smtptest.Rule{Reply: "450 4.7.1 greylisted"}},
		"451":               {rule: smtptest.Rule{Reply: "451 later"}},
		"the dot for 25 s":  {rule: smtptest.Rule{Stage: smtptest.Dot, Delay: 25 * time.Second}},
	}
	for stage, rule := range map[string]smtptest.Rule{
		"RCPT": {Stall: true}, "RCPT in pieces": inPieces(smtptest.Rcpt), "DATA": data, "the dot": dot, "the dot in pieces": inPieces(smtptest.Dot),
	} {
		for n, networks := range []int{1, 2, 20, 200} {
			for i, conns := range []int{2, 3, 4, 10, 0} {
				if (n+i)%2 == len(stage)%2 && (networks < 200 || conns == 2 || conns == 10) { // only half of the combinations
					all[fmt.Sprintf("%s, %d networks, %d connections", stage, networks, conns)] = attack{rule: rule, conns: conns, networks: networks}
				}
			}
		}
	}
	for name, a := range all {
		t.Run(name, func(t *testing.T) {
			a.rule.Stage, a.networks = cmp.Or(a.rule.Stage, smtptest.Rcpt), cmp.Or(a.networks, 1)
			shared, alone, known := a.arrivals(t)
			t.Logf("%s: shared %v, alone %v, known %v", name, shared, alone, known)
			if max(shared, alone) > 10*time.Second || known > 300*time.Millisecond {
				t.Errorf("the last mail came after %v, to a new domain %v, of a known person %v", shared, alone, known)
			}
		})
	}
}

// The first of two servers refuses more than ten connections. Held mails of strangers leave
// connections free at each of the servers, so mails for known people don't wait for the second
// server.
func TestHeldRecipientsByTwoServers(t *testing.T) {
	for _, stage := range []smtptest.Stage{smtptest.Rcpt, smtptest.Data, smtptest.Dot} {
		for _, networks := range []int{1, 2, 20, 200} {
			t.Run(fmt.Sprint(stage, " ", networks), func(t *testing.T) {
				vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Tick = time.Second }, func(rig *vtest.Rig) {
					held := smtptest.Rule{Stage: stage, To: "-chosen.example", Delay: 280 * time.Second}
					small := smtptest.Rule{Stage: smtptest.Greet, Over: 10, Reply: "421 4.7.0 too many connections", Close: true}
					a, b := smtptest.New(rig.T, smtptest.Misbehaving(held, small)), smtptest.New(rig.T, smtptest.Misbehaving(held))
					servers := slices.Concat(a.Sender(rig), b.Sender(rig, func(c *smtp.Config) { c.Host = "127.0.0.2" }))
					rig.Svc = rig.Replica(servers)
					rig.Start()
					asked := map[string]time.Time{}
					ask := func(to string, by verification.Caller) {
						asked[to] = time.Now()
						rig.AskAt(rig.Svc, vtest.AskFor(to, vtest.By(by)), true)
					}
					for n := range 10 {
						ask(fmt.Sprintf("before-%d@example.org", n), vtest.BackEnd)
						rig.Sleep(time.Second)
					}
					for n := range max(95, networks) {
						ask(fmt.Sprintf("x@n%d-chosen.example", n), browserIn(n%networks))
					}
					for n := range 24 {
						rig.Sleep(2 * time.Second)
						ask(fmt.Sprintf("honest@n%d.example", n), browserIn(1000+n))
						ask(fmt.Sprintf("own-%d@example.com", n), vtest.BackEnd)
					}
					rig.Sleep(time.Minute)
					longest := map[string]time.Duration{}
					for to, at := range asked {
						took := min((&wire{server: a}).arrival(to, at), (&wire{server: b}).arrival(to, at))
						longest[to[:2]] = max(longest[to[:2]], took)
					}
					if longest["ho"] > 10*time.Second || longest["ow"] > 300*time.Millisecond {
						rig.Errorf("a stranger's mail arrived after %v, a known person's after %v", longest["ho"], longest["ow"])
					}
					_ = servers.Close()
					rig.Quit()
					a.Stop()
					b.Stop()
				})
			})
		}
	}
}

// The connections that strangers' mails open hang before the server gets a recipient: before the
// greeting, at the greeting, EHLO or STARTTLS, in the handshake, or at MAIL. Later connections
// work. The mails that hang give way, so other mails arrive within 10 s, and mails for known people
// at once.
func TestHeldConnectionsDelayNoOthers(t *testing.T) {
	const connect smtptest.Stage = "connect"
	for _, stage := range []smtptest.Stage{
		connect, smtptest.Greet, smtptest.Hello, smtptest.StartTLS, smtptest.Handshake, smtptest.Mail,
	} {
		for _, conns := range []int{2, 4, 10} {
			t.Run(fmt.Sprint(stage, " ", conns), func(t *testing.T) {
				script := smtptest.Script{}
				if stage == smtptest.StartTLS || stage == smtptest.Handshake {
					script.TLS = smtptest.STARTTLS
				}
				hangs := script
				hangs.Rules = []smtptest.Rule{{Stage: stage, Stall: true}}
				tick := func(s *vtest.Settings) { s.Tick = time.Second }
				onTheWireWith(t, tick, hangs, func(s *smtp.Config) { s.MaxConns = conns }, func(r *wire) {
					r.silent.Store(stage == connect)
					asked := map[string]time.Time{}
					ask := func(to string, by verification.Caller) {
						asked[to] = time.Now()
						r.AskAt(r.Svc, vtest.AskFor(to, vtest.By(by)), true)
					}
					for n := range conns {
						ask(fmt.Sprintf("x@n%d.example", n), browserIn(n))
					}
					r.Sleep(100 * time.Millisecond)
					r.server.SetScript(script)
					r.silent.Store(false)
					for n := range 20 {
						ask(fmt.Sprintf("honest@h%d.example", n), browserIn(1000+n))
						ask(fmt.Sprintf("own-%d@example.com", n), vtest.BackEnd)
						r.Sleep(2 * time.Second)
					}
					r.Sleep(time.Minute)
					for to, at := range asked {
						within := 10 * time.Second
						if strings.HasPrefix(to, "own") {
							within = 300 * time.Millisecond
						} else if strings.HasPrefix(to, "x") {
							within = time.Minute
						}
						if took := r.arrival(to, at); took > within {
							t.Errorf("%s arrived after %v", to, took)
						}
					}
				})
			})
		}
	}
}

// 40 mails for known people and 10 for strangers share one connection, which each of them needs for
// 3 s. They take turns: a stranger's mail that waits for the connection does not give way to
// others, because it occupies nothing that they need.
func TestStrangersShareTheOnlyConnection(t *testing.T) {
	slow := smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Delay: 3 * time.Second})
	onTheWireWith(t, nil, slow, func(s *smtp.Config) { s.MaxConns = 1 }, func(r *wire) {
		for n := range 40 {
			r.AskAt(r.Svc, vtest.AskFor(fmt.Sprintf("own-%d@example.com", n)), true)
		}
		for n := range 10 {
			r.AskAt(r.Svc, vtest.AskFor(fmt.Sprintf("stranger@n%d.example", n), vtest.By(browserIn(n))), true)
		}
		r.Sleep(75 * time.Second)
		arrived := 0
		for _, m := range r.server.Messages() {
			if strings.HasPrefix(m.To[0], "stranger") {
				arrived++
			}
		}
		r.Want("strangers' mails in 25 turns", arrived, 10)
		r.Sleep(2 * time.Minute)
		smtptest.AllOnce(t, 50, r.server)
	})
}

// A server that takes 12 s to answer RCPT still gets the mail of each stranger.
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

// lateCarrier answers after 20 s for the numbers of one prefix, like a carrier that waits for an
// operator. It has the request in the meantime.
type lateCarrier struct {
	*vtest.Carrier
	prefix string

	mu      sync.Mutex
	arrived map[string]time.Time
}

func (c *lateCarrier) Send(ctx context.Context, m sms.Message) (delivery.Result, error) {
	delivery.SetHandover(ctx, true)
	if strings.HasPrefix(m.To, c.prefix) {
		select {
		case <-time.After(20 * time.Second):
		case <-ctx.Done():
			return delivery.Result{Provider: "fake"}, &delivery.Error{
				Class: delivery.Unknown, Stage: delivery.StageRequest, About: delivery.AboutUs, Err: delivery.CauseOf(ctx),
			}
		}
	}
	c.mu.Lock()
	c.arrived[m.To] = time.Now()
	c.mu.Unlock()
	return c.Carrier.Send(ctx, m)
}

// Strangers in one to 200 networks ask for codes for numbers of a prefix for which the carrier
// answers late. The text messages of honest browsers to other numbers arrive within 10 s, and those
// for known people at once. No message is sent twice.
func TestALateCarrierDelaysNoOtherPrefix(t *testing.T) {
	for _, networks := range []int{1, 2, 20, 200} {
		t.Run(fmt.Sprint(networks), func(t *testing.T) {
			vtest.InBubbleIdle(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
				defer r.Quit()
				c := &lateCarrier{Carrier: r.Carrier, prefix: "+49151", arrived: map[string]time.Time{}}
				r.Svc = r.ReplicaOn(r.Store, r.MailServer, c)
				r.Start()
				asked := map[string]time.Time{}
				ask := func(to string, by verification.Caller) {
					text := vtest.TextTo(to)
					text.Caller = by
					asked[to] = time.Now()
					if a, err := r.Svc.Send(r.Context(), text); err != nil || !a.Admitted {
						t.Errorf("%s: %v, %v", to, err, a.Quota.Violated())
					}
				}
				for n := range 10 { // so that the outbox has measured the carrier's usual time
					ask(fmt.Sprintf("+49160%07d", 2_000_000+n), vtest.BackEnd)
					r.Sleep(time.Second)
				}
				for n := range max(95, networks) {
					ask(vtest.NthNumber(n), browserIn(n%networks))
				}
				for n := range 24 {
					r.Sleep(time.Minute / 24)
					ask(fmt.Sprintf("+49170%07d", 1_000_000+n), browserIn(1000+n))
					ask(fmt.Sprintf("+49160%07d", 1_000_000+n), vtest.BackEnd)
				}
				r.Sleep(time.Minute)
				for to, at := range asked {
					limit := 10 * time.Second
					switch to[:6] {
					case c.prefix:
						continue
					case "+49160":
						limit = 300 * time.Millisecond
					}
					if took := c.arrived[to].Sub(at); took < 0 || took > limit {
						t.Errorf("%s arrived after %v", to, took)
					}
				}
				seen := map[string]bool{}
				for _, m := range r.Carrier.Accepted() {
					if seen[m.To] {
						t.Errorf("%s got two messages", m.To)
					}
					seen[m.To] = true
				}
			})
		})
	}
}
