package smtp_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// sendAll sends mails first..last one after the other; all must be accepted.
func sendAll(t *testing.T, s *smtp.Client, first, last int) {
	t.Helper()
	for n := first; n <= last; n++ {
		if _, err := s.Send(t.Context(), smtptest.Sample(n)); err != nil {
			t.Fatalf("mail %d: %v", n, err)
		}
	}
}

func expectCounts(t *testing.T, server *smtptest.Server, messages, connections int) {
	t.Helper()
	if m, c := len(server.Messages()), server.Connections(); m != messages || c != connections {
		t.Errorf("%d messages over %d connections, want %d over %d", m, c, messages, connections)
	}
	for id, n := range server.ByID() {
		if n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
}

func TestConnectionServesHundredMails(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	sendAll(t, s, 1, 100)
	expectCounts(t, server, 100, 1)
	sendAll(t, s, 101, 101)
	expectCounts(t, server, 101, 2)
	s.Close()
	if got := strings.Count(verbs(server), "QUIT"); got != 2 {
		t.Errorf("%d connections ended with QUIT, want 2", got)
	}
}

func TestIdleConnectionIsClosedByTime(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{})
		sendAll(t, s, 1, 1)
		time.Sleep(30*time.Second - time.Millisecond)
		sendAll(t, s, 2, 2) // within 30 s: the same connection, and its time starts anew
		time.Sleep(30*time.Second - time.Millisecond)
		synctest.Wait()
		expectCounts(t, server, 2, 1)
		if server.Open() != 1 {
			t.Errorf("closed too early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if server.Open() != 0 || !strings.HasSuffix(verbs(server), "QUIT") {
			t.Errorf("%d connections open after 30 s, dialogue %q", server.Open(), verbs(server))
		}
		sendAll(t, s, 3, 3)
		expectCounts(t, server, 3, 2)
	})
}

// TestQuitThatIsNotAnswered: only the place waits for it, and not for long.
func TestQuitThatIsNotAnswered(t *testing.T) {
	for name, rule := range map[string]smtptest.Rule{
		"stalls": {Stage: smtptest.Quit, Stall: true}, "refused": {Stage: smtptest.Quit, Reply: "500 no"},
		"closes": {Stage: smtptest.Quit, Close: true},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				server, s := inBubble(t, misbehaving(rule), func(c *smtp.Config) { c.MaxMails = 1 })
				began := time.Now()
				_, err := s.Send(t.Context(), smtptest.Sample(1))
				expect(t, err, outcome{})
				if time.Since(began) != 0 {
					t.Errorf("the outcome waited %v for the QUIT", time.Since(began))
				}
				s.Close()
				if time.Since(began) > time.Second {
					t.Errorf("Close waited %v", time.Since(began))
				}
				expectCounts(t, server, 1, 1)
			})
		})
	}
}

func TestCloseEndsIdleConnections(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	sendAll(t, s, 1, 1)
	for range 2 {
		s.Close()
	}
	if !strings.HasSuffix(verbs(server), "QUIT") {
		t.Errorf("dialogue %q", verbs(server))
	}
	for range 6 { // more often than there are places
		_, err := s.Send(t.Context(), smtptest.Sample(2))
		expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageDial})
	}
	expectCounts(t, server, 1, 1)
}

// TestCloseLetsASendEnd: a send under way ends as if nothing were, and its connection is not kept.
func TestCloseLetsASendEnd(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: time.Minute}))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := s.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, outcome{})
		})
		synctest.Wait()
		s.Close()
		wg.Wait()
		synctest.Wait()
		expectCounts(t, server, 1, 1)
		if server.Open() != 0 {
			t.Error("the connection outlived its sender")
		}
	})
}

// TestManySendersAtOnce: each outcome agrees with what the server has, whatever goes wrong in between.
func TestManySendersAtOnce(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{Rules: []smtptest.Rule{
		{Stage: smtptest.Mail, Skip: 5, Times: 3, Close: true},
		{Stage: smtptest.Rcpt, Skip: 20, Times: 4, Reply: "451 4.7.1 later"},
		{Stage: smtptest.Rcpt, Skip: 40, Times: 4, Reply: "550 5.1.1 no"},
		{Stage: smtptest.Dot, Skip: 30, Times: 5, Close: true},
		{Stage: smtptest.Idle, Skip: 60, Times: 6, Abort: true},
	}}, func(c *smtp.Config) { c.MaxMails = 7 })
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
	s.Close()
	server.Stop()
	accepted, unknown := server.ByID(), 0
	for n, err := range results {
		got := accepted[smtptest.Sample(n).ID]
		switch class := outcomeOf(t, err).class; {
		case class == delivery.Unknown:
			unknown++
		case class == "" && got != 1, class != "" && got != 0:
			t.Errorf("mail %d: outcome %v, accepted %d times", n, err, got)
		}
		if got > 1 {
			t.Errorf("mail %d was accepted %d times", n, got)
		}
	}
	if unknown != 5 {
		t.Errorf("%d outcomes unknown, want the 5 that were made so", unknown)
	}
}
