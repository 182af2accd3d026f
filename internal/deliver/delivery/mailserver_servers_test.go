package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/kit/servertest"
)

// The next server gets a message only if the message was certainly not accepted and may go to
// another server.
func TestServersInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		rule          smtptest.Rule
		down          bool
		want          smtptest.Outcome
		first, second int
	}{
		"the first works":         {first: 1},
		"the first is down":       {down: true, second: 1},
		"the first is busy":       {rule: smtptest.Rule{Stage: smtptest.Greet, Reply: "421 4.3.2 busy", Close: true}, second: 1},
		"the first defers":        {rule: smtptest.Rule{Stage: smtptest.Rcpt, Reply: "451 4.7.1 later"}, second: 1},
		"the first wants no mail": {rule: smtptest.Rule{Stage: smtptest.Greet, Reply: "554 5.3.2 no service", Close: true}, second: 1},
		"the first cannot log in": {rule: smtptest.Rule{Stage: smtptest.Mail, Reply: "530 5.7.0 log in"}, second: 1},
		"the first rejects": {
			rule: smtptest.Rule{Stage: smtptest.Rcpt, Reply: "550 5.1.1 no"},
			want: smtptest.Outcome{Class: delivery.Rejected, Stage: delivery.StageRcpt, Status: 550, Code: "5.1.1"},
		},
		"the first wants another sender": {rule: smtptest.Rule{Stage: smtptest.Mail, Reply: "550 5.7.1 not your sender"}, second: 1},
		"… and says so at RCPT":          {rule: smtptest.Rule{Stage: smtptest.Rcpt, Reply: "553 5.1.8 not your sender"}, second: 1},
		"… in Postfix's words":           {rule: smtptest.Rule{Stage: smtptest.Rcpt, Reply: "553 5.7.1 <a@b.example>: Sender address rejected: not owned by user codes"}, second: 1},
		"the first is a web server": {
			rule: smtptest.Rule{Stage: smtptest.Greet, Raw: "HTTP/1.1 400 Bad Request\r\n\r\n<html>", Close: true}, second: 1,
		},
		"the first speaks TLS at once": {
			rule:   smtptest.Rule{Stage: smtptest.Greet, Raw: "\x15\x03\x03\x00\x02\x02\x46", Close: true},
			second: 1,
		},
		"the first never ends its line": {
			rule:   smtptest.Rule{Stage: smtptest.Hello, Raw: "250 " + strings.Repeat("x", 200_000)},
			second: 1,
		},
		"the first is silent after the dot": {
			rule: smtptest.Rule{Stage: smtptest.Dot, Close: true}, first: 1,
			want: smtptest.Outcome{Class: delivery.Unknown, Stage: delivery.StageDot},
		},
		"the first takes all the time": {
			rule: smtptest.Rule{Stage: smtptest.Rcpt, Stall: true},
			want: smtptest.Outcome{Class: delivery.Temporary, Stage: delivery.StageRcpt},
		},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			servers, first, second := pair(t, smtptest.Misbehaving(c.rule), smtptest.Script{})
			if c.down {
				first.Stop()
			}
			receipt, err := servers.Send(ctx, smtptest.Sample(1))
			smtptest.Expect(t, err, c.want)
			if len(first.Messages()) != c.first || len(second.Messages()) != c.second || receipt.Provider != "127.0.0.1" {
				t.Errorf("%s: %d and %d messages, want %d and %d; %+v", name, len(first.Messages()),
					len(second.Messages()), c.first, c.second, receipt)
			}
		})
	}
}

// A server without SMTPUTF8 cannot accept a non-ASCII local part, but another server may. So the
// mail goes to another server, waits for another server, or is rejected if all servers refuse it.
func TestServersWithoutSMTPUTF8(t *testing.T) {
	without, defers := smtptest.Script{Extensions: []string{"8BITMIME"}},
		smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "451 4.7.1 later"})
	rejected := smtptest.Outcome{Class: delivery.Rejected, Stage: delivery.StageMail}
	deferred := smtptest.Outcome{Class: delivery.Temporary, Stage: delivery.StageRcpt, Status: 451, Code: "4.7.1"}
	for name, c := range map[string]struct {
		first, second smtptest.Script
		want          smtptest.Outcome
	}{
		"the first":                   {first: without},
		"both":                        {first: without, second: without, want: rejected},
		"the first; the other defers": {first: without, second: defers, want: deferred},
		"the other; the first defers": {first: defers, second: without, want: deferred},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			servers, _, second := pair(t, c.first, c.second)
			mail := smtptest.Sample(1)
			mail.To = "用户@example.com"
			_, err := servers.Send(t.Context(), mail)
			smtptest.Expect(t, err, c.want)
			servertest.Same(t, name, len(second.Messages()) == 1, c.want == smtptest.Outcome{})
			second.Stop()
			for n := range delivery.FaultsToOpenBreaker + 1 {
				if _, err = servers.Send(t.Context(), mail); !strings.Contains(fmt.Sprint(err), "temporary") &&
					c.want == (smtptest.Outcome{}) {
					t.Errorf("%s, %d mails after the other one stopped: %v", name, n, err)
				}
			}
		})
	}
}

// Two servers with the same host count as two servers: a resend goes to the server that did not
// accept the first mail.
func TestServersOfOneHost(t *testing.T) {
	first, second := smtptest.New(t, smtptest.Script{}), smtptest.New(t, smtptest.Script{})
	port := func(n int) func(*smtp.Config) { return func(c *smtp.Config) { c.Port = n } }
	servers := mailserver.New(first.Sender(t, port(25))[0].Server, second.Sender(t, port(2525))[0].Server)
	type mails struct{ first, second int }
	mail := smtptest.Sample(1)
	for _, want := range []mails{{1, 0}, {1, 1}, {2, 1}} {
		receipt, err := servers.Send(t.Context(), mail)
		servertest.OK(t, err)
		servertest.Same(t, "mails", mails{len(first.Messages()), len(second.Messages())}, want)
		mail.Used = []string{receipt.Provider}
	}
	servertest.Same(t, "the name of the first", mail.Used[0], "127.0.0.1:25")
}

// A resend that one server defers waits for that server, even if the next server refuses the mail
// for a reason that is not the recipient's.
func TestServersOfAResend(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, _, _ := pair(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "451 4.7.1 later"}),
			smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Reply: "554 5.7.1 policy"}))
		mail := smtptest.Sample(1)
		mail.Used = []string{"mx.example"}
		_, err := servers.Send(t.Context(), mail)
		smtptest.Expect(t, err, smtptest.Outcome{Class: delivery.Temporary, Stage: delivery.StageRcpt, Status: 451, Code: "4.7.1"})
	})
}

// One of two servers is silent: the first, or the second, which a resend prefers. A mail waits 5 s
// for a silent server. A resend prefers the second server only while that server's last mail did
// not fail. If both servers are slow, a mail waits for the last one without this limit.
func TestServersWithASilentOne(t *testing.T) {
	silent := func(stage smtptest.Stage) smtptest.Script {
		return smtptest.Misbehaving(smtptest.Rule{Stage: stage, Stall: true})
	}
	slow := smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Delay: 12 * time.Second})
	ended := smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Greet, Close: true})
	for name, c := range map[string]struct {
		first, second smtptest.Script
		resend        bool
		want          [3]time.Duration // the waits of mails one after the other
	}{
		"no greeting, on a resend":  {second: silent(smtptest.Greet), resend: true, want: [3]time.Duration{5 * time.Second}},
		"no EHLO, on a resend":      {second: silent(smtptest.Hello), resend: true, want: [3]time.Duration{5 * time.Second}},
		"no RCPT, on a resend":      {second: silent(smtptest.Rcpt), resend: true, want: [3]time.Duration{5 * time.Second}},
		"it ends, on a resend":      {second: ended, resend: true},
		"no greeting of the first":  {first: silent(smtptest.Greet), want: [3]time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}},
		"no RCPT of the first":      {first: silent(smtptest.Rcpt), want: [3]time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}},
		"both are slow":             {first: slow, second: slow, want: [3]time.Duration{17 * time.Second, 17 * time.Second, 17 * time.Second}},
		"the other is slow as well": {first: slow, second: slow, resend: true, want: [3]time.Duration{17 * time.Second, 17 * time.Second, 17 * time.Second}},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			first, second := smtptest.New(t, c.first), smtptest.New(t, c.second)
			servers := slices.Concat(
				first.Sender(t, func(c *smtp.Config) { c.Host = "first.example" }),
				second.Sender(t, func(c *smtp.Config) { c.Host = "second.example" }))
			for n, want := range c.want {
				mail := smtptest.Sample(n)
				if c.resend {
					mail.Used = []string{"first.example"}
				}
				began := time.Now()
				if _, err := servers.Send(t.Context(), mail); err != nil || time.Since(began) != want {
					t.Errorf("%s: mail %d: %v after %v, want %v", name, n, err, time.Since(began), want)
				}
			}
		})
	}
}

// pair returns Servers that prefer the server with the script first, and then both servers, which
// have no port.
func pair(t *testing.T, first, second smtptest.Script) (mailserver.Servers, *smtptest.Server, *smtptest.Server) {
	t.Helper()
	a, b := smtptest.New(t, first), smtptest.New(t, second)
	return slices.Concat(a.Sender(t), b.Sender(t)), a, b
}

// post sends n mails, the first with the number first, from as many goroutines as the outbox has
// workers by default. It returns the failures.
func post(t *testing.T, servers mailserver.Servers, first, n int) []error {
	t.Helper()
	outcomes := make([]error, n)
	var next atomic.Int32
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_, outcomes[i] = servers.Send(t.Context(), smtptest.Sample(first+i))
			}
		})
	}
	workers.Wait()
	return slices.DeleteFunc(outcomes, func(err error) bool { return err == nil })
}

// Only a few mails wait for the dial timeout of a dead server.
func TestDeadServerCostsFewMailsTheirTime(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var dials atomic.Int32
		good := smtptest.New(t, smtptest.Script{})
		servers := slices.Concat(smtptest.NewSender(t,
			smtp.Config{Host: smtptest.BlackHole, Dial: smtptest.DialBlackHole(&dials)}), good.Sender(t))
		began := time.Now()
		if failures := post(t, servers, 1, 200); len(failures) != 0 {
			t.Fatal(failures[0])
		}
		smtptest.AllOnce(t, 200, good)
		if took := time.Since(began); took > 11*time.Second || dials.Load() > 16 { // at most one for each worker
			t.Errorf("200 mails took %v and %d dials of the dead server", took, dials.Load())
		}
		now := servers.Health()
		if now[0].Up || !strings.Contains(now[0].Why, "slow") && !strings.Contains(now[0].Why, "dial") || !now[1].Up ||
			now[0].Server != "blackhole.example:587" {
			t.Errorf("health %+v", now)
		}
	})
}

// A server that is set aside gets one mail in five seconds. When such a mail is accepted, the
// servers have their old order again.
func TestOneMailTriesAServerSetAside(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t,
			smtptest.Misbehaving(smtptest.Rule{
				Stage: smtptest.Greet, Delay: time.Second, Reply: "421 4.3.2 busy",
				Close: true,
			}), smtptest.Script{})
		var reported []delivery.Health
		servers.OnHealthChange(func(h delivery.Health) { reported = append(reported, h) })
		post(t, servers, 1, 100)
		tries := first.Connections()
		if tries > 8 || len(second.Messages()) != 100 {
			t.Fatalf("%d tries, %d mails", tries, len(second.Messages()))
		}
		time.Sleep(5*time.Second + time.Millisecond)
		post(t, servers, 101, 100)
		if n := first.Connections() - tries; n != 1 {
			t.Errorf("%d mails tried the server that is set aside, want 1", n)
		}
		first.SetScript(smtptest.Script{})
		time.Sleep(4900 * time.Millisecond)
		post(t, servers, 201, 1)
		servertest.Same(t, "mails that went to the first server before its time", len(first.Messages()), 0)
		time.Sleep(time.Second)
		post(t, servers, 202, 1) // alone, because mails sent before its outcome still go to the second server
		post(t, servers, 203, 99)
		if len(first.Messages()) < 50 || !servers.Health()[0].Up {
			t.Errorf("the first server is back and got %d of 100 mails: %+v", len(first.Messages()), servers.Health())
		}
		smtptest.AllOnce(t, 301, first, second)
		if len(reported) != 2 || reported[0].Up || reported[0].Why != "hello: temporary: 421 4.3.2: busy" || !reported[1].Up || reported[1].Why != "" {
			t.Errorf("heard %+v", reported)
		}
	})
}

// While every server is set aside, mails fail at once with a Temporary error. While a mail is tried
// at the only server, later mails wait for its outcome.
func TestServersAllSetAside(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server := smtptest.New(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Greet, Reply: "421 4.3.2 busy", Close: true}))
		servers := server.Sender(t)
		if failures := post(t, servers, 1, 16); len(failures) != 16 {
			t.Fatalf("%d failures", len(failures))
		}
		tried, began := server.Connections(), time.Now()
		failures := post(t, servers, 100, 16)
		if len(failures) != 16 || time.Since(began) != 0 || server.Connections() != tried {
			t.Fatalf("%d failures after %v and %d tries more", len(failures), time.Since(began), server.Connections()-tried)
		}
		smtptest.Expect(t, failures[0], smtptest.Outcome{Class: delivery.Temporary, Stage: delivery.StageAllSetAside})
		servertest.Same(t, "mails that would be tried", servers.AttemptsAllowed(), 0)
		time.Sleep(5*time.Second + time.Millisecond)
		servertest.Same(t, "mails that would be tried after five seconds", servers.AttemptsAllowed(), 1)
		if failures := post(t, servers, 17, 16); len(failures) != 16 || server.Connections() != tried+1 {
			t.Errorf("%d failures, %d tries, want 16 and 1", len(failures), server.Connections()-tried)
		}
		server.SetScript(smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: time.Second}))
		time.Sleep(5*time.Second + time.Millisecond)
		began = time.Now()
		if failures := post(t, servers, 33, 16); len(failures) != 0 {
			t.Errorf("%d mails failed though the server is back: %v", len(failures), failures[0])
		}
		if took := time.Since(began); took != 4*time.Second { // one mail is tried, then 4, 5 and 6 at once
			t.Errorf("16 mails took %v", took)
		}
		smtptest.AllOnce(t, 16, server)
	})
}

// inTenSeconds returns a script that delays every answer by ten seconds.
func inTenSeconds() (s smtptest.Script) {
	for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot} {
		s.Rules = append(s.Rules, smtptest.Rule{Stage: stage, Delay: 10 * time.Second})
	}
	return s
}

// One slow server doesn't reduce the pace below that of the other server.
func TestPaceWithOneSlowServer(t *testing.T) {
	const mails, alone = 300, 300 / 4 * 100 * time.Millisecond // over four connections
	for name, slow := range map[string]smtptest.Script{
		"after the dot": smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 10 * time.Second}),
		"every answer":  inTenSeconds(),
	} {
		servertest.Bubble(t, func(t *testing.T) {
			servers, first, healthy := pair(t, slow,
				smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 100 * time.Millisecond}))
			began, failures := time.Now(), make(chan []error)
			go func() { failures <- post(t, servers, 1, mails) }()
			healthy.Await(mails - 30)
			if took := time.Since(began); took > alone+6*time.Second {
				t.Errorf("%s: the healthy server took %v, alone %v", name, took, alone)
			}
			if all := <-failures; len(all) != 0 {
				t.Errorf("%s: %d failures: %v", name, len(all), all[0])
			}
			smtptest.AllOnce(t, mails, first, healthy)
		})
	}
}

// Slowness counts against a server only while another server is up.
func TestServersSlowButAlone(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		slow := smtptest.New(t, inTenSeconds())
		servers := slow.Sender(t)
		if failures := post(t, servers, 1, 16); len(failures) != 0 || !servers.Health()[0].Up {
			t.Errorf("%v, %+v", failures, servers.Health())
		}
		smtptest.AllOnce(t, 16, slow)
	})
}

// A late answer does not undo the fault that was already counted against the server.
func TestServersLateAnswerKeepsTheFault(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t,
			smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 8 * time.Second}), smtptest.Script{})
		for n := range 4 {
			if _, err := servers.Send(t.Context(), smtptest.Sample(n)); err != nil {
				t.Fatal(err)
			}
		}
		servertest.Same(t, "mails of each server", [2]int{len(first.Messages()), len(second.Messages())}, [2]int{3, 1})
	})
}

// BreakerResult returns the failure itself if other messages would fail, too, but not if only the
// pace was too high. It returns nil if the server refuses the sender, the message or the recipient,
// and ErrHealthUnknown if the failure says nothing about the server. The replies of Microsoft in
// docs/mail-servers.md are failures of the first kind.
func TestErrorBreakerResult(t *testing.T) {
	before := []string{delivery.StageDial, delivery.StageTLS, delivery.StageHello, delivery.StageAuth, delivery.StageMail}
	after := []string{delivery.StageRcpt, delivery.StageData, delivery.StageDot}
	type replies struct {
		stages []string
		said   string
	}
	fault := errors.New("the failure itself")
	page, _ := os.ReadFile("../../../docs/mail-servers.md")
	rows := regexp.MustCompile(`(?m)^\| (\d{3} \d\.\d+\.\d+)`).FindAllString(string(page), -1)
	servertest.Same(t, "rows of the page", len(rows), 5)
	check := func(fail *delivery.Error, want error) {
		t.Helper()
		if got := fail.BreakerResult(); got != want && (want != fault || got != error(fail)) {
			t.Errorf("%v: %v, want %v", fail, got, want)
		}
	}
	for want, all := range map[error][]replies{
		nil: {
			{after, "550, 450, 451, 451 4.7.1, 452, 452 4.2.2, 454 4.7.1, 553 5.7.1, 550 5.1.8"},
			{before[4:], "550, 503"},
		},
		delivery.ErrHealthUnknown: {{after[2:], "0, 354"}, {after, "454"}, {before[4:], "454"}},
		fault: {
			{slices.Concat(before, after), "421, 421 4.3.2, 432, 450 4.3.2, 530, 535"},
			{after[:2], "0, 250"},
			{before, "0, 450, 451, 452"},
			{before[:4], "454"},
			{before[:4], "550, 554"},
			{[]string{delivery.StageAuth, delivery.StageDot}, strings.ReplaceAll(strings.Join(rows, ", "), "| ", "")},
		},
	} {
		for _, r := range all {
			for said := range strings.SplitSeq(r.said, ", ") {
				for _, stage := range r.stages {
					var status int
					var code string
					_, _ = fmt.Sscan(said, &status, &code)
					check(delivery.ErrorByReply(stage, status, code, delivery.NoMeaning), want)
				}
			}
		}
	}
	for status, want := range map[int]error{
		422: nil, 400: nil, 429: delivery.ErrHealthUnknown, 403: fault, 404: fault, 503: fault,
		500: fault, 200: fault,
	} {
		check(providerhttp.ErrorByStatus(providerhttp.Response{Status: status}, ""), want)
	}
	check(nil, nil)
	check(&delivery.Error{Class: delivery.Unknown, Stage: delivery.StageRequest}, fault)
	check(&delivery.Error{Class: delivery.Temporary, Stage: delivery.StageRcpt, About: delivery.AboutUs}, delivery.ErrHealthUnknown)
	check(&delivery.Error{Class: delivery.Rejected, Stage: delivery.StagePrepare, About: delivery.AboutUs}, delivery.ErrHealthUnknown)
}

// If the one attempt at a server that was set aside panics, another attempt may follow, and the
// connection is free again.
func TestServersAttemptThatPanics(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, _ := pair(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Greet, Times: 3, Close: true}), smtptest.Script{})
		servers = servers[:1]
		for n := range 3 {
			post(t, servers, 1+n, 1)
		}
		time.Sleep(delivery.BreakerOpenFor + 1)
		servers.OnAttempt(func(context.Context, string, *delivery.Error, time.Duration) { panic("planted") })
		func() {
			defer func() { servertest.Same(t, "the panic goes on", recover(), any("planted")) }()
			_, _ = servers.Send(t.Context(), smtptest.Sample(4))
		}()
		servertest.Same(t, "attempts allowed", servers.AttemptsAllowed(), 1)
		servers.OnAttempt(nil)
		post(t, servers, 5, 1)
		servertest.Same(t, "mails", len(first.Messages()), 2)
	})
}
