package smtp_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// between sets how many connections there are.
func between(least, most int) func(*smtp.Config) {
	return func(c *smtp.Config) { c.MinConns, c.MaxConns = least, most }
}

// burst sends mails all at once, and waits for them; all must be accepted.
func burst(t *testing.T, s *smtp.Client, first, n int) {
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

// takes300ms is a receiver that takes as long for each mail.
var takes300ms = misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 300 * time.Millisecond})

// A receiver that takes 300 ms a mail gets as many mails a second as its connections allow.
func TestSlowReceiverGetsAllItsConnections(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, takes300ms, between(2, 20), func(c *smtp.Config) { c.MaxMails = 1000 })
		began := time.Now()
		burst(t, s, 0, 200)
		if took := time.Since(began); took > 3*time.Second+100*time.Millisecond || server.Peak() != 20 {
			t.Errorf("200 mails took %v over %d connections, want 3 s and 20", took, server.Peak())
		}
	})
}

// A receiver that takes mails at once gets them over the least connections: none is opened that would have nothing to do.
func TestQuickReceiverGetsFewConnections(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{}, between(2, 20))
		burst(t, s, 0, 60)
		expectCounts(t, server, 60, min(server.Connections(), 2)) // on a busy machine one may serve them all
	})
}

// Connections beyond the least end soon after the backlog, and the others as ever.
func TestConnectionsShrinkAgain(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, takes300ms, between(2, 20))
		burst(t, s, 0, 40)
		synctest.Wait()
		if server.Open() != 20 {
			t.Errorf("%d connections after the backlog", server.Open())
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if server.Open() != 2 {
			t.Errorf("%d connections 6 s after the backlog, want 2", server.Open())
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if server.Open() != 0 {
			t.Errorf("%d connections 31 s after the backlog", server.Open())
		}
		burst(t, s, 100, 40)
		if server.Peak() != 20 {
			t.Errorf("%d connections in the next backlog", server.Peak())
		}
	})
}

// A connection that ends makes room for another one at once, also while mails wait for those that there are.
func TestConnectionsThatEndAreReplaced(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{}, between(1, 20), func(c *smtp.Config) { c.MaxMails = 1 })
		began := time.Now()
		burst(t, s, 0, 20)
		if took := time.Since(began); took != 0 {
			t.Errorf("the mails waited %v", took)
		}
		expectCounts(t, server, 20, 20)
	})
}

// A mail that waits for a place, or for a connection that is busy, heeds its context.
func TestWaitingHonoursTheContext(t *testing.T) {
	for _, conns := range []int{1, 20} {
		servertest.Bubble(t, func(t *testing.T) {
			server, s := inBubble(t, takes300ms, between(1, conns))
			go burst(t, s, 0, 1)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := s.Send(ctx, smtptest.Sample(1))
			expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageDial})
			if took := time.Since(began); took != time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it waited %v: %v", took, err)
			}
			time.Sleep(time.Second)
			burst(t, s, 2, 3)
			expectCounts(t, server, 4, server.Connections())
		})
	}
}
