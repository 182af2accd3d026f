package smtp_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// TestCancelling ends the context while the server thinks, at every stage: before the final dot nothing was
// sent, after it the outcome is unknown.
func TestCancelling(t *testing.T) {
	for stage, want := range map[smtptest.Stage]outcome{
		smtptest.Greet: {class: delivery.Temporary, stage: delivery.StageHello},
		smtptest.Hello: {class: delivery.Temporary, stage: delivery.StageHello},
		smtptest.Mail:  {class: delivery.Temporary, stage: delivery.StageMail},
		smtptest.Rcpt:  {class: delivery.Temporary, stage: delivery.StageRcpt},
		smtptest.Data:  {class: delivery.Temporary, stage: delivery.StageData},
		smtptest.Body:  {class: delivery.Temporary, stage: delivery.StageBody},
		smtptest.Dot:   {class: delivery.Unknown, stage: delivery.StageDot},
	} {
		t.Run(string(stage), func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				server, s := inBubble(t, misbehaving(smtptest.Rule{Stage: stage, Times: 1, Delay: 20 * time.Second}))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				big := smtptest.Sample(1)
				big.Text = strings.Repeat("a line that fills buffers\n", 1000)
				_, err := s.Send(ctx, big)
				expect(t, err, want)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the cause of %q is not the context's", err)
				}
				accepted := 0
				if want.class == delivery.Unknown {
					accepted = 1
				}
				time.Sleep(time.Minute) // on the bubble's clock: the server has finished by then
				if len(server.Messages()) != accepted || server.Open() != 0 {
					t.Errorf("%d messages and %d connections, want %d and 0", len(server.Messages()), server.Open(), accepted)
				}
				_, err = s.Send(t.Context(), smtptest.Sample(2))
				expect(t, err, outcome{})
			})
		})
	}
}

func TestCancelledBeforehand(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused := func(connections int) {
		t.Helper()
		for range 20 { // it must not be a matter of chance
			_, err := s.Send(ctx, smtptest.Sample(1))
			expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageDial})
			if !errors.Is(err, context.Canceled) || server.Connections() != connections {
				t.Errorf("%v after %d connections", err, server.Connections())
			}
		}
	}
	refused(0)
	sendAll(t, s, 2, 2)
	refused(1)
	sendAll(t, s, 3, 3) // over the kept connection, which is untouched
	expectCounts(t, server, 2, 1)
}

// TestCancelledOnAKeptConnection: there is no time for a fresh one.
func TestCancelledOnAKeptConnection(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, misbehaving(smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Stall: true}))
		sendAll(t, s, 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Send(ctx, smtptest.Sample(2))
		expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageMail})
		expectCounts(t, server, 1, 1)
	})
}

// lastMoment is a connection on which the context ends while the 250 is being read, and whose closing takes until
// the test is over.
type lastMoment struct {
	net.Conn
	cancel context.CancelFunc
}

func (c lastMoment) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bytes.HasPrefix(p[:n], []byte("250 2.0.0 accepted")) {
		c.cancel()
	}
	return n, err
}

func (c lastMoment) Close() error { return nil }

// TestCancelledInTheLastMoment: the 250 counts, and the socket that is about to be closed is not kept for another mail.
func TestCancelledInTheLastMoment(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := sender(t, server, func(c *smtp.Config) {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			return lastMoment{conn, cancel}, err
		}
	})
	_, err := s.Send(ctx, smtptest.Sample(1))
	expect(t, err, outcome{})
	if ctx.Err() == nil {
		t.Fatal("the moment was missed")
	}
	sendAll(t, s, 2, 2)
	expectCounts(t, server, 2, 2)
}
