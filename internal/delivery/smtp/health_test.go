package smtp_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// pair is two servers, the preferred one first, in a bubble.
func pair(t *testing.T, first, second smtptest.Script) (smtp.Servers, *smtptest.Server, *smtptest.Server) {
	t.Helper()
	a, b := smtptest.New(t, first), smtptest.New(t, second)
	return smtp.Servers{piped(t, a), piped(t, b)}, a, b
}

func misbehaving(rules ...smtptest.Rule) smtptest.Script { return smtptest.Script{Rules: rules} }

// post sends n mails, the first with the given number, from as many goroutines as an outbox has, and gives the failures.
func post(t *testing.T, servers smtp.Servers, first, n int) []error {
	t.Helper()
	var mu sync.Mutex
	var failures []error
	numbers := make(chan int, n)
	for i := range n {
		numbers <- first + i
	}
	close(numbers)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for number := range numbers {
				if _, err := servers.Send(t.Context(), smtptest.Sample(number)); err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return failures
}

func allOnce(t *testing.T, n int, servers ...*smtptest.Server) {
	t.Helper()
	seen := map[string]int{}
	for _, s := range servers {
		for id, times := range s.ByID() {
			seen[id] += times
		}
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s arrived %d times", id, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d mails arrived", len(seen), n)
	}
}

// blackHole swallows packets: dialling it ends by time alone.
func blackHole(dials *atomic.Int32) func(*smtp.Config) {
	return func(c *smtp.Config) {
		c.Host = "blackhole.example"
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
}

// TestDeadServerCostsFewMailsTheirTime: its dial timeout is not paid by each mail.
func TestDeadServerCostsFewMailsTheirTime(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var dials atomic.Int32
		good := smtptest.New(t, smtptest.Script{})
		servers := smtp.Servers{newSender(t, smtp.Config{Host: "x", TLS: smtp.TLSNone}, blackHole(&dials)), piped(t, good)}
		began := time.Now()
		if failures := post(t, servers, 1, 500); failures != nil {
			t.Fatal(failures[0])
		}
		allOnce(t, 500, good)
		if took := time.Since(began); took > 11*time.Second || dials.Load() > 4 {
			t.Errorf("500 mails took %v and %d dials of the dead server", took, dials.Load())
		}
		now := servers.Health()
		if now[0].Up || !strings.Contains(now[0].Why, "slow") && !strings.Contains(now[0].Why, "dial") || !now[1].Up ||
			now[0].Server != "blackhole.example:587" {
			t.Errorf("health %+v", now)
		}
	})
}

// TestOneMailTriesAServerSetAside: once in five seconds, and when it gets through the order is the old one.
func TestOneMailTriesAServerSetAside(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, misbehaving(smtptest.Rule{Stage: smtptest.Greet, Delay: time.Second, Reply: "421 4.3.2 busy",
			Close: true}), smtptest.Script{})
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
		if len(first.Messages()) != 0 {
			t.Error("a mail went to the first server before its time")
		}
		time.Sleep(time.Second)
		post(t, servers, 202, 1) // of several at once, those that choose before it is through still go to the second
		post(t, servers, 203, 99)
		if len(first.Messages()) < 50 || !servers.Health()[0].Up {
			t.Errorf("the first server is back and got %d of 100 mails: %+v", len(first.Messages()), servers.Health())
		}
		allOnce(t, 301, first, second)
	})
}

// TestNothingAcceptedIsOfferedTwice: also while a server is set aside and tried again.
func TestNothingAcceptedIsOfferedTwice(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, misbehaving(
			smtptest.Rule{Stage: smtptest.Dot, Skip: 5, Times: 10, Close: true},
			smtptest.Rule{Stage: smtptest.Greet, Skip: 1, Times: 20, Reply: "421 4.3.2 busy", Close: true},
		), smtptest.Script{})
		unknown, rounds := 0, 0
		for ; rounds < 20 || unknown < 10 && rounds < 100; rounds++ { // how often the first is tried is a matter of who comes first
			for _, err := range post(t, servers, 20*rounds, 20) {
				if outcomeOf(t, err).class != delivery.Unknown {
					t.Errorf("round %d: %v", rounds, err)
				}
				unknown++
			}
			time.Sleep(6 * time.Second)
		}
		allOnce(t, 20*rounds, first, second)
		if unknown != 10 {
			t.Errorf("%d outcomes unknown, want 10", unknown)
		}
	})
}

// TestEveryServerSetAside: a mail fails at once, and its failure is Temporary.
func TestEveryServerSetAside(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		busy := misbehaving(smtptest.Rule{Stage: smtptest.Greet, Reply: "421 4.3.2 busy", Close: true})
		servers, first, second := pair(t, busy, busy)
		post(t, servers, 1, 32)
		tries := first.Connections() + second.Connections()
		began := time.Now()
		failures := post(t, servers, 33, 100)
		if len(failures) != 100 || time.Since(began) != 0 || first.Connections()+second.Connections() != tries {
			t.Fatalf("%d failures after %v and %d tries more", len(failures), time.Since(began), first.Connections()+second.Connections()-tries)
		}
		expect(t, failures[0], outcome{class: delivery.Temporary, stage: delivery.StageAside})
	})
}

// TestBackAllAtOnce: mails that come while a lone server is being tried wait for what that shows.
func TestBackAllAtOnce(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server := smtptest.New(t, misbehaving(smtptest.Rule{Stage: smtptest.Greet, Reply: "421 4.3.2 busy", Close: true}))
		servers := smtp.Servers{piped(t, server)}
		if failures := post(t, servers, 1, 16); len(failures) != 16 {
			t.Fatalf("%d failures", len(failures))
		}
		tried := server.Connections()
		time.Sleep(5*time.Second + time.Millisecond)
		if failures := post(t, servers, 17, 16); len(failures) != 16 || server.Connections() != tried+1 {
			t.Errorf("%d failures, %d tries, want 16 and 1", len(failures), server.Connections()-tried)
		}
		server.SetScript(misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: time.Second}))
		time.Sleep(5*time.Second + time.Millisecond)
		began := time.Now()
		if failures := post(t, servers, 33, 16); failures != nil {
			t.Errorf("%d mails failed though the server is back: %v", len(failures), failures[0])
		}
		if took := time.Since(began); took != 5*time.Second { // one tries, then four at once
			t.Errorf("16 mails took %v over four connections", took)
		}
		allOnce(t, 16, server)
	})
}
