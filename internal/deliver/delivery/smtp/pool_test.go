package smtp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

func TestConnectionServesHundredMails(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	sendAll(t, s, 1, 100)
	expectCounts(t, server, 100, 1)
	sendAll(t, s, 101, 101)
	expectCounts(t, server, 101, 2)
	s.Close()
	servertest.Same(t, "connections that ended with QUIT", strings.Count(verbs(server), "QUIT"), 2)
}

func TestIdleConnectionIsClosedByTime(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{})
		for n := range 2 { // each mail within 30 s uses the same connection, whose time starts again
			sendAll(t, s, n, n)
			time.Sleep(30*time.Second - time.Millisecond)
		}
		for _, open := range []int{1, 0} {
			synctest.Wait()
			servertest.Same(t, "connections, and those that are open", [2]int{server.Connections(), server.Open()}, [2]int{1, open})
			time.Sleep(time.Millisecond)
		}
		if !strings.HasSuffix(verbs(server), "QUIT") {
			t.Errorf("dialogue %q", verbs(server))
		}
		sendAll(t, s, 3, 3)
		expectCounts(t, server, 3, 2)
	})
}

// A mail does not wait for the answer to its connection's QUIT. Until the answer, the connection
// counts against the limit, but only for a short time.
func TestPoolDoesNotAwaitTheAnswerToQUIT(t *testing.T) {
	for name, rule := range map[string]smtptest.Rule{
		"stalls": {Stage: smtptest.Quit, Stall: true}, "refused": {Stage: smtptest.Quit, Reply: "500 no"},
		"closes": {Stage: smtptest.Quit, Close: true},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			server, s := inBubble(t, smtptest.Misbehaving(rule), func(c *smtp.Config) { c.MaxMails = 1 })
			began := time.Now()
			sendAll(t, s, 1, 1)
			if sent := time.Since(began); sent != 0 {
				t.Errorf("%s: the outcome waited %v for the QUIT", name, sent)
			}
			_ = s.Close()
			if closed := time.Since(began); closed > time.Second {
				t.Errorf("%s: Close waited %v", name, closed)
			}
			expectCounts(t, server, 1, 1)
		})
	}
}

// At Close, a send under way ends normally. No connection is kept, and later mails fail.
func TestClientClose(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Misbehaving(
			smtptest.Rule{Stage: smtptest.Dot, Times: 2, Delay: time.Second},
			smtptest.Rule{Stage: smtptest.Dot, Delay: time.Minute}))
		burst(t, s, 1, 2)
		var last sync.WaitGroup
		last.Go(func() { burst(t, s, 3, 1) })
		synctest.Wait()
		s.Close()
		s.Close()
		synctest.Wait()
		if !strings.HasSuffix(verbs(server), "QUIT") || server.Open() != 1 {
			t.Errorf("dialogue %q, %d connections", verbs(server), server.Open())
		}
		for range 6 { // more often than there may be connections
			_, err := s.Send(t.Context(), smtptest.Sample(4))
			expect(t, err, outcome{Class: delivery.Temporary, Stage: delivery.StageDial})
		}
		last.Wait()
		synctest.Wait()
		expectCounts(t, server, 3, 2)
		servertest.Same(t, "connections that outlived their sender", server.Open(), 0)
	})
}

// between sets the least and the greatest number of connections.
func between(least, most int) func(*smtp.Config) {
	return func(c *smtp.Config) { c.MinConns, c.MaxConns = least, most }
}

// burst sends n mails at once, and waits for them. All must be accepted.
func burst(t *testing.T, s mailserver.Servers, first, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := s.Send(t.Context(), smtptest.Sample(first+i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

var takes300ms = smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 300 * time.Millisecond})

// A receiver that takes 300 ms for a mail gets as many mails a second as its connections allow.
// Connections beyond the least number end soon after the backlog, and the others after the usual
// time.
func TestConnectionsGrowAndShrink(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, takes300ms, between(2, 20), func(c *smtp.Config) { c.MaxMails = 1000 })
		began := time.Now()
		burst(t, s, 0, 200)
		if took := time.Since(began); took > 3*time.Second+100*time.Millisecond {
			t.Errorf("200 mails took %v, want 3 s", took)
		}
		for _, c := range []struct {
			after time.Duration
			open  int
		}{{0, 20}, {6 * time.Second, 2}, {25 * time.Second, 0}} {
			time.Sleep(c.after)
			synctest.Wait()
			servertest.Same(t, "connections "+c.after.String()+" later", server.Open(), c.open)
		}
		burst(t, s, 200, 40)
		synctest.Wait()
		servertest.Same(t, "connections after the next backlog", server.Open(), 20)
	})
}

// If a kept connection fails, it is closed, and so are the connections that were idle for longer.
func TestPoolClosesConnsIdleLongerThanAFailedOne(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, takes300ms)
		burst(t, s, 0, 3)
		server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Mail, Times: 1, Reply: "421 4.3.2 going down"}))
		sendAll(t, s, 4, 4)
		synctest.Wait()
		servertest.Same(t, "connections, and those that are open", [2]int{server.Connections(), server.Open()}, [2]int{4, 1})
	})
}

// A receiver that takes mails at once gets them over the least number of connections. No connection
// that would have nothing to do is opened.
func TestQuickReceiverGetsFewConnections(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{}, between(2, 20))
		burst(t, s, 0, 60)
		expectCounts(t, server, 60, min(server.Connections(), 2)) // on a busy machine one may serve them all
	})
}

// When a connection ends, another one may be opened at once, even while mails wait for the
// remaining connections.
func TestConnectionsThatEndAreReplaced(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{}, between(1, 1000), func(c *smtp.Config) { c.MaxMails = 1 })
		began := time.Now()
		burst(t, s, 0, 1000)
		if took := time.Since(began); took != 0 {
			t.Errorf("the mails waited %v", took)
		}
		expectCounts(t, server, 1000, 1000)
	})
}

// A mail that waits for a connection fails when its context ends.
func TestPoolWaitEndsWithItsContext(t *testing.T) {
	for _, conns := range []int{1, 20} {
		servertest.Bubble(t, func(t *testing.T) {
			server, s := inBubble(t, takes300ms, between(1, conns))
			go burst(t, s, 0, 1)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := s.Send(ctx, smtptest.Sample(1))
			expect(t, err, outcome{Class: delivery.Temporary, Stage: delivery.StageDial})
			if took := time.Since(began); took != time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it waited %v: %v", took, err)
			}
			time.Sleep(time.Second)
			burst(t, s, 2, 3)
			expectCounts(t, server, 4, server.Connections())
		})
	}
}

// Each outcome agrees with the mails that the server has, whichever faults occur. There are never
// more sockets than allowed, not even while connections are replaced or retired.
func TestPoolServesManySendersAtOnce(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{Rules: []smtptest.Rule{
		{Stage: smtptest.Mail, Skip: 5, Times: 2, Close: true},
		{Stage: smtptest.Rcpt, Skip: 20, Times: 4, Reply: "451 4.7.1 later"},
		{Stage: smtptest.Rcpt, Skip: 40, Times: 4, Reply: "550 5.1.1 no"},
		{Stage: smtptest.Dot, Skip: 30, Times: 5, Close: true},
		{Stage: smtptest.Idle, Skip: 60, Times: 6, Abort: true},
	}})
	var open, peak atomic.Int32
	s := server.Sender(t, func(c *smtp.Config) { c.MaxMails, c.MaxConns = 7, 4 }, dialThrough(func(c *hooked) {
		peak.Store(max(peak.Load(), open.Add(1)))
		closed := sync.OnceFunc(func() { open.Add(-1) })
		c.close = func() error { closed(); return c.Conn.Close() }
	}))
	const senders, each = 8, 20
	results := make([]error, senders*each)
	var wg sync.WaitGroup
	for first := range senders {
		wg.Go(func() {
			for n := first * each; n < (first+1)*each; n++ {
				_, results[n] = s.Send(t.Context(), smtptest.Sample(n))
			}
		})
	}
	wg.Wait()
	_ = s.Close()
	server.Stop()
	accepted, unknown := server.ByID(), 0
	for n, err := range results {
		got, class := accepted[smtptest.Sample(n).MessageID], outcomeOf(t, err).Class
		if class == delivery.Unknown {
			unknown++
		} else if (class == "") != (got == 1) || got > 1 {
			t.Errorf("mail %d: outcome %v, accepted %d times", n, err, got)
		}
	}
	if unknown != 5 || peak.Load() > 4 || open.Load() != 0 {
		t.Errorf("%d outcomes unknown, want the 5 that were made so; %d sockets at once, %d left", unknown, peak.Load(), open.Load())
	}
}

// A server with a limit on connections refuses those beyond the limit, at any step of their first
// mail. The mails of these connections go over the others. One more connection is tried after 10
// minutes at the earliest, and the server is not set aside. If the server accepts that connection,
// the number of connections grows as usual in the same backlog.
func TestServerLimitsConnections(t *testing.T) {
	const busy = "421 4.3.2 too many connections"
	for name, c := range map[string]struct {
		rule        smtptest.Rule
		least, most int
	}{
		"greeting":         {smtptest.Rule{Stage: smtptest.Greet, Reply: busy, Close: true}, 4, 4},
		"greeting, many":   {smtptest.Rule{Stage: smtptest.Greet, Reply: busy, Close: true}, 20, 20},
		"greeting, grown":  {smtptest.Rule{Stage: smtptest.Greet, Reply: busy, Close: true}, 0, 0},
		"backlog":          {smtptest.Rule{Stage: smtptest.Greet, Reply: busy, Close: true}, 1, 20},
		"450, stays open":  {smtptest.Rule{Stage: smtptest.Greet, Reply: "450 4.3.2 too many connections"}, 4, 4},
		"EHLO":             {smtptest.Rule{Stage: smtptest.Hello, Reply: busy, Close: true}, 4, 4},
		"MAIL":             {smtptest.Rule{Stage: smtptest.Mail, Reply: busy, Close: true}, 4, 4},
		"MAIL, 452":        {smtptest.Rule{Stage: smtptest.Mail, Reply: "452 4.3.1 later"}, 0, 0},
		"MAIL, 4.7.0":      {smtptest.Rule{Stage: smtptest.Mail, Reply: "450 4.7.0 too much"}, 0, 0},
		"RCPT":             {smtptest.Rule{Stage: smtptest.Rcpt, Reply: busy, Close: true}, 0, 0},
		"DATA, stays open": {smtptest.Rule{Stage: smtptest.Data, Reply: busy}, 0, 0},
		"the mail, 432":    {smtptest.Rule{Stage: smtptest.Dot, Reply: "432 thread limit exceeded"}, 0, 0},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			c.rule.Over = 3
			server, s := inBubble(t, smtptest.Misbehaving(c.rule, takes300ms.Rules[0]), between(c.least, c.most))
			began := time.Now()
			burst(t, s, 0, 90)
			if took := time.Since(began); took > 9*time.Second+100*time.Millisecond {
				t.Errorf("%s: 90 mails over 3 connections took %v, want 9 s", name, took)
			}
			servertest.Same(t, name+": soon", s.ConnLimit(), 3)
			for n, more := range []int{3, 3 + 1, 3} { // after 9, 18 and 27 minutes
				opened := server.Connections()
				time.Sleep(9 * time.Minute)
				burst(t, s, 90+20*n, 20)
				servertest.Same(t, name+": connections of the next backlog", server.Connections()-opened, more)
			}
			server.SetScript(smtptest.Misbehaving(takes300ms.Rules[0])) // without its limit
			time.Sleep(9 * time.Minute)
			burst(t, s, 150, 300)
			used, idle, _ := s[0].ConnCounts()
			servertest.Same(t, name+": all at last", used+idle, s[0].MaxConns())
			servertest.Same(t, name+": up", s.Health()[0].Up && s.Health()[0].Since.IsZero(), true)
			smtptest.AllOnce(t, 450, server)
		})
	}
}

// If a server accepts all connections, a backlog gets up to 20 connections. At most two connections
// are opened at a time, and the next one only after another has served a mail. If the server
// replies that we send too much, the connection of the reply is closed, its mail is postponed, and
// for 10 minutes no connection is added. The four connections that need no backlog stay.
func TestConnectionsFollowTheServer(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, takes300ms)
		began := time.Now()
		for second := range 7 {
			go burst(t, s, 100*second, 60)
			synctest.Wait()
			if used, _, _ := s[0].ConnCounts(); used > 6+20*second/3 { // two more every 302 ms
				t.Errorf("%d connections after %v", used, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		used, _, _ := s[0].ConnCounts()
		servertest.Same(t, "connections in the backlog", used, 20)
		time.Sleep(time.Minute)
		servertest.Same(t, "soon, without one", s.ConnLimit(), 7)
		for n, c := range []struct {
			stage smtptest.Stage
			reply string
			most  int
		}{
			{smtptest.Rcpt, "452 4.5.3 too many", 19},
			{smtptest.Rcpt, "450 4.7.1 later", 18},
			{smtptest.Dot, "421 4.7.0 bye", 17},
			{smtptest.Rcpt, "450 4.2.1 later", 20},
		} {
			time.Sleep(10 * time.Minute)
			burst(t, s, 1000*(1+n), 300)
			server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: c.stage, Times: 20 - min(c.most, 19), Reply: c.reply},
				takes300ms.Rules[0]))
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() { _, _ = s.Send(t.Context(), smtptest.Sample(1000*(1+n)+500+i)) })
			}
			all.Wait()
			servertest.Same(t, c.reply+": soon", s.ConnLimit(), c.most)
			server.SetScript(takes300ms)
			time.Sleep(8 * time.Minute)
			servertest.Same(t, c.reply+": for 10 minutes", s.ConnLimit(), map[bool]int{true: c.most, false: 6}[c.most < 20])
		}
		servertest.Same(t, "up", s.Health()[0].Up, true)
	})
}

// If a server ends the connection at one recipient only, it is not set aside for other recipients,
// and gets the same number of connections.
func TestPoolAfterA421ToOneRecipient(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{}, between(1, 20))
		for n := range 2 * delivery.FaultsToOpenBreaker {
			burst(t, s, 10*n, 1)
			most := s.ConnLimit()
			server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Times: 2, Reply: "421 4.7.0 bye", Close: true}))
			_, err := s.Send(t.Context(), smtptest.Sample(10*n+1))
			if fail, ok := errors.AsType[*delivery.Error](err); !ok || fail.Class != delivery.Temporary ||
				fail.About != delivery.AboutRecipient {
				t.Errorf("%+v", fail)
			}
			servertest.Same(t, "soon", s.ConnLimit(), most)
			server.SetScript(smtptest.Script{})
		}
		servertest.Same(t, "up", s.Health()[0].Since.IsZero(), true)
	})
}

// A kept connection whose login has ended gets no other mail. The next connection logs in again.
func TestPoolRenewsAnEndedLogin(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{}, between(1, 1))
		burst(t, s, 0, 1)
		server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Mail, Times: 1, Reply: "530 5.7.57 client not authenticated"}))
		burst(t, s, 1, 1)
		servertest.Same(t, "connections", server.Connections(), 2)
		smtptest.AllOnce(t, 2, server)
	})
}

// A slow mail on a further connection does not prevent another mail from opening one.
func TestPoolSlowTrialDelaysNoOtherMail(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, takes300ms)
		burst(t, s, 0, 4)
		server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Times: 5, Delay: 25 * time.Second}, takes300ms.Rules[0]))
		var slow sync.WaitGroup
		for n := range 5 {
			slow.Go(func() { _, _ = s.Send(t.Context(), smtptest.Sample(10+n)) })
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		burst(t, s, 20, 1)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a mail beside five slow ones took %v", took)
		}
		slow.Wait()
	})
}

// A mail whose connection is refused goes to the next server if no open connection becomes free in
// time.
func TestServerLimitsConnectionsOfTwo(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		first, s := inBubble(t, smtptest.Misbehaving(
			smtptest.Rule{Stage: smtptest.Greet, Over: 3, Reply: "421 4.3.2 too many connections", Close: true},
			smtptest.Rule{Stage: smtptest.Dot, Delay: 4 * time.Second}), between(20, 20))
		second, other := inBubble(t, smtptest.Script{})
		s = append(s, other...)
		burst(t, s, 0, 20)
		servertest.Same(t, "mails of each", [2]int{len(first.Messages()), len(second.Messages())}, [2]int{3, 17})
		servertest.Same(t, "up", s.Health()[0].Up, true)
	})
}

// If refusals leave only one of several connections, another connection is tried a minute later.
func TestPoolGrowsAfterRefusals(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		busy := smtptest.Rule{Stage: smtptest.Greet, Over: 1, Reply: "421 4.3.2 too many connections", Close: true}
		server, s := inBubble(t, smtptest.Misbehaving(busy, takes300ms.Rules[0]), between(4, 4))
		burst(t, s, 0, 20)
		servertest.Same(t, "soon", s.ConnLimit(), 1)
		server.SetScript(takes300ms)
		time.Sleep(45 * time.Second)
		burst(t, s, 100, 10)
		servertest.Same(t, "in the minute", s.ConnLimit(), 1)
		time.Sleep(time.Minute)
		burst(t, s, 200, 20)
		servertest.Same(t, "after it", s.ConnLimit(), 2)
	})
}

// A server's limit on connections is also noticed with real sockets. Each mail with a connection
// waits until a connection was refused.
func TestServerLimitsSockets(t *testing.T) {
	refused := make(chan struct{})
	closed := sync.OnceFunc(func() { close(refused) })
	server, s := overTCP(t, smtptest.Misbehaving(
		smtptest.Rule{Stage: smtptest.Greet, Over: 3, Reply: "421 4.3.2 too many connections", Close: true},
		smtptest.Rule{Stage: smtptest.Dot, Until: refused}),
		dialThrough(func(c *hooked) { c.close = func() error { closed(); return c.Conn.Close() } }))
	burst(t, s, 0, 4)
	expectCounts(t, server, 4, 4)
	burst(t, s, 4, 4)
	expectCounts(t, server, 8, 4)
}

// At most perMinute mails begin within a minute, over all connections. The next mails wait up to 5
// s for their turn, and are then postponed. With a login at Microsoft's host the default is 30.
func TestClientPace(t *testing.T) {
	microsoft := func(c *smtp.Config) {
		c.Host = "smtp.office365.com"
		opportunistic(c)
		onLoopback(c)
	}
	for name, change := range map[string][]func(*smtp.Config){
		"per_minute=30":    {withUser, onLoopback, func(c *smtp.Config) { c.PerMinute = 30 }},
		"Microsoft's host": {withUser, microsoft},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				script := smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password}
				_, s := inBubble(t, script, change...)
				defer func() { _ = s.Close() }()
				began := time.Now()
				var mails sync.WaitGroup
				var sent [4]atomic.Int32 // in each minute
				for n := range 70 {
					mails.Go(func() {
						for err := errors.New("not sent yet"); err != nil; {
							asked := time.Now()
							_, err = s.Send(t.Context(), smtptest.Sample(n))
							if waited := time.Since(asked); waited > 5*time.Second {
								t.Errorf("mail %d waited %v", n, waited)
							}
							if err != nil {
								time.Sleep(turn(t, err) - 3*time.Second)
							}
						}
						sent[time.Since(began)/time.Minute].Add(1)
					})
				}
				time.Sleep(58 * time.Second)
				gone, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for n := range 40 { // mails whose context ends don't count for the pace
					mails.Go(func() { _, _ = s.Send(gone, smtptest.Sample(100+n)) })
				}
				mails.Wait()
				for minute, want := range []int32{30, 30, 10, 0} {
					servertest.Same(t, fmt.Sprint("mails in minute ", minute), sent[minute].Load(), want)
				}
			})
		})
	}
}

// If begin returns false, for example because the server was suspended in the meantime, the mail
// does not count for the pace.
func TestDeliverTakesNoTurnIfNotBegun(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		_, s := inBubble(t, smtptest.Script{}, func(c *smtp.Config) { c.PerMinute = 1 })
		mail, _ := new(delivery.MailEncoder).Encode(smtptest.Sample(1))
		for _, begins := range []bool{false, false, true} {
			_, tried, fail := s[0].Deliver(t.Context(), 0, func() bool { return begins }, mail)
			if tried != begins || fail != nil {
				t.Errorf("tried %v, %v", tried, fail)
			}
		}
	})
}

// turn returns the time after which a mail above the pace may be tried again.
func turn(t *testing.T, err error) time.Duration {
	t.Helper()
	var fail *delivery.Error
	if !errors.As(err, &fail) || fail.Err != delivery.ErrPace || fail.Class != delivery.Temporary {
		t.Errorf("%v, want ErrPace", err)
		return time.Minute
	}
	return fail.RetryAfter
}

// If all servers have reached their pace, a mail is postponed until the first server's turn, and no
// server is set aside for it. A stop ends the wait.
func TestClientPaceOfTwoServers(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		one := func(c *smtp.Config) { c.PerMinute = 1 }
		_, s := inBubble(t, smtptest.Script{}, one)
		_, second := inBubble(t, smtptest.Script{}, one)
		s = append(s, second...)
		sendAll(t, s, 1, 1)
		time.Sleep(10 * time.Second)
		sendAll(t, s, 2, 2)
		for n := range 9 {
			_, err := s.Send(t.Context(), smtptest.Sample(3+n))
			servertest.Same(t, "the turn", turn(t, err), 50*time.Second)
		}
		servertest.Same(t, "up", s.Health()[0].Up && s.Health()[1].Up, true)
		time.Sleep(49500 * time.Millisecond)
		failures := make(chan error)
		for n := range 2 { // one of the two mails comes at the first server's turn
			go func() {
				_, err := s.Send(t.Context(), smtptest.Sample(3+n))
				failures <- err
			}()
		}
		servertest.OK(t, <-failures)
		servertest.Same(t, "the turn of the other", turn(t, <-failures), 9500*time.Millisecond)
		time.Sleep(55500 * time.Millisecond)
		stopping, began := make(chan struct{}), time.Now()
		time.AfterFunc(time.Second, func() { close(stopping) })
		_, err := s[:1].Send(delivery.WithStop(t.Context(), stopping), smtptest.Sample(5))
		servertest.Same(t, "wait and turn", [2]time.Duration{time.Since(began), turn(t, err)},
			[2]time.Duration{time.Second, 3 * time.Second})
	})
}
