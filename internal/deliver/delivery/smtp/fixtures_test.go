package smtp_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
)

// These values must never be in an error.
const (
	recipient = smtptest.Recipient
	username  = "relay-user"
	password  = "correct horse/battery"
	code      = smtptest.Code
)

// overTCP starts a server on a port, and returns it with a sender for it.
func overTCP(t *testing.T, script smtptest.Script, change ...func(*smtp.Config)) (*smtptest.Server, mailserver.Servers) {
	t.Helper()
	server := smtptest.Start(t, script)
	return server, server.Sender(t, change...)
}

// inBubble returns a server without a port, and a sender for it.
func inBubble(t *testing.T, script smtptest.Script, change ...func(*smtp.Config)) (*smtptest.Server, mailserver.Servers) {
	t.Helper()
	server := smtptest.New(t, script)
	return server, server.Sender(t, change...)
}

// pipelining has the keywords of a server that accepts several commands in one write.
var pipelining = []string{"PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES", "SMTPUTF8"}

// bothWays runs a test against servers with and without PIPELINING.
func bothWays(t *testing.T, test func(t *testing.T, extensions []string)) {
	t.Run("one by one", func(t *testing.T) { test(t, nil) })
	t.Run("pipelined", func(t *testing.T) { test(t, pipelining) })
}

type outcome smtptest.Outcome

func outcomeOf(t *testing.T, err error) outcome {
	t.Helper()
	return outcome(smtptest.OutcomeOf(t, err, username, password, "battery"))
}

// blabbing returns a reply whose text contains all values that must not be repeated.
func blabbing(head string) string {
	return head + " <" + recipient + "> " + username + " " + password + " " + code
}

func expect(t *testing.T, got error, want outcome) {
	t.Helper()
	smtptest.Expect(t, got, smtptest.Outcome(want), username, password, "battery")
}

func verbs(server *smtptest.Server) string {
	all := server.Commands()
	for i, line := range all {
		all[i], _, _ = strings.Cut(line, " ")
	}
	return strings.Join(all, " ")
}

// sendAll sends the mails from first to last, one after the other. All must be accepted.
func sendAll(t *testing.T, s mailserver.Servers, first, last int) {
	t.Helper()
	for n := first; n <= last; n++ {
		if _, err := s.Send(t.Context(), smtptest.Sample(n)); err != nil {
			t.Fatalf("mail %d: %v", n, err)
		}
	}
}

// expectCounts fails the test unless the server got this number of messages, each once, over this
// number of connections.
func expectCounts(t *testing.T, server *smtptest.Server, messages, connections int) {
	t.Helper()
	if c := server.Connections(); c != connections {
		t.Errorf("%d connections, want %d", c, connections)
	}
	smtptest.AllOnce(t, messages, server)
}

// hooked is a socket whose calls a test watches or replaces. A nil hook leaves a call unchanged.
type hooked struct {
	net.Conn
	read  func(p []byte) // gets the bytes that were read
	write func(p []byte) (n int, err error)
	close func() error
}

func (h *hooked) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if h.read != nil {
		h.read(p[:n])
	}
	return n, err
}

func (h *hooked) Write(p []byte) (int, error) {
	if h.write == nil {
		return h.Conn.Write(p)
	}
	return h.write(p)
}

func (h *hooked) Close() error {
	if h.close == nil {
		return h.Conn.Close()
	}
	return h.close()
}

// dialThrough puts hooks on the sockets of a sender.
func dialThrough(hook func(c *hooked)) func(*smtp.Config) {
	return func(c *smtp.Config) {
		dial := c.Dial
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			h := &hooked{Conn: conn}
			hook(h)
			return h, nil
		}
	}
}
