package smtp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// The context ends while the server is silent, at every stage, for a first mail and for a mail on a
// kept connection. Before the final dot, the mail is certainly not accepted. After the final dot,
// the outcome is unknown.
func TestSendCancelledAtEachStage(t *testing.T) {
	for stage, at := range map[smtptest.Stage]string{
		smtptest.Greet: delivery.StageHello, smtptest.Hello: delivery.StageHello, smtptest.Mail: delivery.StageMail,
		smtptest.Rcpt: delivery.StageRcpt, smtptest.Data: delivery.StageData, smtptest.Body: delivery.StageBody,
		smtptest.Dot: delivery.StageDot,
	} {
		for kept := range 2 {
			if kept == 1 && at == delivery.StageHello {
				continue
			}
			servertest.Bubble(t, func(t *testing.T) {
				server, s := inBubble(t, smtptest.Misbehaving(smtptest.Rule{Stage: stage, Skip: kept, Times: 1, Delay: 20 * time.Second}))
				sendAll(t, s, 1, kept)
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than the timeout on a kept connection
				defer cancel()
				big := smtptest.Sample(2)
				big.Text = strings.Repeat("a line that fills buffers\n", 1000)
				_, err := s.Send(ctx, big)
				want, arrived := outcome{Class: delivery.Temporary, Stage: at}, kept
				if stage == smtptest.Dot {
					want.Class, arrived = delivery.Unknown, kept+1
				}
				expect(t, err, want)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the cause of %q is not the context's", err)
				}
				time.Sleep(time.Minute) // on the bubble's clock, so the server has finished
				expectCounts(t, server, arrived, 1)
				servertest.Same(t, "open connections", server.Open(), 0)
				sendAll(t, s, 3, 3)
			})
		}
	}
}

func TestSendCancelledBeforehand(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 20 { // many times, because select picks among ready cases at random
		if n == 10 {
			sendAll(t, s, 2, 2) // now a connection is kept
		}
		_, err := s.Send(ctx, smtptest.Sample(1))
		expect(t, err, outcome{Class: delivery.Temporary, Stage: delivery.StageDial})
		if !errors.Is(err, context.Canceled) || server.Connections() != n/10 {
			t.Errorf("%v after %d connections", err, server.Connections())
		}
	}
	sendAll(t, s, 3, 3) // over the kept connection, which is untouched
	expectCounts(t, server, 2, 1)
}

// If the 250 arrives just before the cancellation, it counts. The socket, which is about to be
// closed, is not kept for another mail.
func TestSendCancelledInTheLastMoment(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := server.Sender(t, dialThrough(func(c *hooked) {
		t.Cleanup(func() { _ = c.Conn.Close() })
		c.close = func() error { return nil } // as if closing took until the end of the test
		c.read = func(p []byte) {
			if bytes.HasPrefix(p, []byte("250 2.0.0 accepted")) {
				cancel()
			}
		}
	}))
	_, err := s.Send(ctx, smtptest.Sample(1))
	expect(t, err, outcome{})
	if ctx.Err() == nil {
		t.Fatal("the moment was missed")
	}
	sendAll(t, s, 2, 2)
	expectCounts(t, server, 2, 2)
}

// The connection is cut at every byte around the end of the message and at some bytes within it. A
// message that was not wholly written was never accepted, and no dot or command follows the cut.
// The outcome is unknown only once the final dot has begun to leave.
func TestSendWireIsCutWithinTheMessage(t *testing.T) {
	reference := smtptest.Start(t, smtptest.Script{})
	if _, err := reference.Sender(t).Send(t.Context(), smtptest.Sample(1)); err != nil {
		t.Fatal(err)
	}
	whole := len(reference.Messages()[0].Data)
	cuts := []int{0, 1, 2, whole / 3, whole / 2, whole - 2, whole - 1, whole, whole + 1, whole + 2}
	for _, cut := range cuts {
		server := smtptest.Start(t, smtptest.Script{})
		var log servertest.Text
		s := server.Sender(t, dialThrough(func(c *hooked) {
			inData, left := false, cut
			c.write = func(p []byte) (int, error) {
				whole := p
				if inData {
					p = p[:min(len(p), left)]
					left -= len(p)
				}
				inData = inData || string(p) == "DATA\r\n"
				_, _ = log.Write(p)
				if n, err := c.Conn.Write(p); err != nil || n < len(whole) {
					return n, errors.Join(err, io.ErrShortWrite)
				}
				return len(whole), nil
			}
		}))
		_, err := s.Send(t.Context(), smtptest.Sample(1))
		want := outcome{Class: delivery.Temporary, Stage: delivery.StageBody}
		if cut > whole {
			want = outcome{Class: delivery.Unknown, Stage: delivery.StageDot}
		}
		expect(t, err, want)
		s.Close()
		server.Stop()
		_, after, _ := strings.Cut(log.String(), "DATA\r\n")
		if len(after) != cut || strings.Contains(after, "\r\n.\r\n") {
			t.Errorf("cut after %d bytes: %d bytes on the wire behind DATA, ending in %q", cut, len(after), after[max(0, len(after)-8):])
		}
		if len(server.Messages()) != 0 || server.Partial() != 1 {
			t.Errorf("cut after %d of %d bytes: %d messages accepted, %d partial", cut, whole, len(server.Messages()), server.Partial())
		}
	}
}

// unbuffered makes the kernel accept few bytes at once, so that a message of a megabyte cannot be
// written while the server does not read.
var unbuffered = dialThrough(func(c *hooked) { _ = c.Conn.(*net.TCPConn).SetWriteBuffer(4096) })

func bigMessage(n int) delivery.Mail {
	big := smtptest.Sample(n)
	big.Text = strings.Repeat("a line that fills buffers\n", 40_000)
	return big
}
