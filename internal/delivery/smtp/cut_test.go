package smtp_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// cutConn is a socket that fails to write after a number of bytes behind the DATA command.
type cutConn struct {
	net.Conn
	tape   *tape
	inData bool
	left   int
}

// tape is what a client wrote on one connection.
type tape struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (t *tape) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written.String()
}

var errCut = errors.New("the wire was cut")

func (c *cutConn) Write(p []byte) (int, error) {
	allowed := len(p)
	if c.inData {
		allowed = min(allowed, c.left)
		c.left -= allowed
	}
	n, err := c.Conn.Write(p[:allowed])
	c.tape.mu.Lock()
	c.tape.written.Write(p[:n])
	c.tape.mu.Unlock()
	if string(p) == "DATA\r\n" {
		c.inData = true
	}
	if err == nil && n < len(p) {
		err = errCut
	}
	return n, err
}

// TestWireIsCutWithinTheMessage cuts at every byte around the end of the message and at some within. What was
// not wholly written was never accepted, no dot or command follows the cut, and only once the terminator has
// begun to leave is the outcome unknown.
func TestWireIsCutWithinTheMessage(t *testing.T) {
	reference := smtptest.Start(t, smtptest.Script{})
	if _, err := sender(t, reference).Send(t.Context(), smtptest.Sample(1)); err != nil {
		t.Fatal(err)
	}
	whole := len(reference.Messages()[0].Data)
	cuts := []int{0, 1, 2, whole / 3, whole / 2, whole - 2, whole - 1, whole, whole + 1, whole + 2}
	for _, cut := range cuts {
		server := smtptest.Start(t, smtptest.Script{})
		var log tape
		s := sender(t, server, func(c *smtp.Config) {
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &cutConn{Conn: conn, tape: &log, left: cut}, err
			}
		})
		_, err := s.Send(t.Context(), smtptest.Sample(1))
		switch {
		case cut < whole:
			expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageBody})
		case cut == whole:
			expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageDot})
		default:
			expect(t, err, outcome{class: delivery.Unknown, stage: delivery.StageDot})
		}
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

// unbuffered makes the kernel take little at once, so that a message of a megabyte cannot be written while the
// server does not read.
func unbuffered(c *smtp.Config) {
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetWriteBuffer(4096)
	}
}

func bigMessage(n int) delivery.Message {
	big := smtptest.Sample(n)
	big.Text = strings.Repeat("a line that fills buffers\n", 40_000)
	return big
}

// TestServerStopsReadingTheMessage: the write fails within the body, and nothing was accepted.
func TestServerStopsReadingTheMessage(t *testing.T) {
	for _, rule := range []smtptest.Rule{
		{Stage: smtptest.Body, Abort: true},
		{Stage: smtptest.Body, Close: true},
		{Stage: smtptest.Body, Reply: blabbing("552 5.3.4"), Close: true},
	} {
		server, s := overTCP(t, misbehaving(rule), unbuffered)
		_, err := s.Send(t.Context(), bigMessage(1))
		expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageBody})
		server.Stop()
		if len(server.Messages()) != 0 || server.Partial() != 1 {
			t.Errorf("%d messages, %d partial", len(server.Messages()), server.Partial())
		}
	}
}

// TestServerNeverReadsTheRest: writing the body has its end in time too.
func TestServerNeverReadsTheRest(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server := smtptest.New(t, misbehaving(smtptest.Rule{Stage: smtptest.Body, Stall: true}))
		began := time.Now()
		_, err := piped(t, server).Send(t.Context(), bigMessage(1))
		expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageBody})
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("waited %v", took)
		}
	})
}
