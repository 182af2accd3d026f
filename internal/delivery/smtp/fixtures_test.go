package smtp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/mailserver"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
)

// What must never be in an error.
const (
	recipient = smtptest.Recipient
	username  = "relay-user"
	password  = "correct horse/battery"
	code      = smtptest.Code
)

// sender makes a sender for a server, on its port or without one, changed as wanted, and closed
// with the test.
func sender(t *testing.T, server *smtptest.Server, change ...func(*smtp.Config)) mailserver.Servers {
	t.Helper()
	config := smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: server.Dial}
	if server.Addr() != "" {
		var err error
		if config, err = smtp.ParseURL(server.URL()); err != nil {
			t.Fatal(err)
		}
	}
	return newSender(t, config, change...)
}

// overTCP starts a server on a port, and makes a sender for it.
func overTCP(t *testing.T, script smtptest.Script, change ...func(*smtp.Config)) (*smtptest.Server,
	mailserver.Servers) {
	t.Helper()
	server := smtptest.Start(t, script)
	return server, sender(t, server, change...)
}

// inBubble makes a server without a port, and a sender for it.
func inBubble(t *testing.T, script smtptest.Script, change ...func(*smtp.Config)) (*smtptest.Server,
	mailserver.Servers) {
	t.Helper()
	server := smtptest.New(t, script)
	return server, sender(t, server, change...)
}

// pipelining are the keywords of a server that takes commands together.
var pipelining = []string{"PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES", "SMTPUTF8"}

// bothWays runs a test against servers that take commands one by one, and together.
func bothWays(t *testing.T, test func(t *testing.T, extensions []string)) {
	t.Run("one by one", func(t *testing.T) { test(t, nil) })
	t.Run("pipelined", func(t *testing.T) { test(t, pipelining) })
}

func newSender(t *testing.T, config smtp.Config, change ...func(*smtp.Config)) mailserver.Servers {
	t.Helper()
	for _, c := range change {
		c(&config)
	}
	one, err := smtp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := mailserver.New(one)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// outcome is what a test expects of one Send; the zero outcome is acceptance.
type outcome struct {
	class    delivery.Class
	stage    string
	code     int
	enhanced string
}

// outcomeOf reads an error of Send, and checks that neither it nor anything that it wraps prints a
// secret.
func outcomeOf(t *testing.T, err error) outcome {
	t.Helper()
	if err == nil {
		return outcome{}
	}
	fail, ok := err.(*delivery.Error)
	if !ok {
		t.Fatalf("error of type %T, want *delivery.Error", err)
	}
	if fail.Stage == delivery.StageAuth && fail.Text != "" {
		t.Errorf("words about the login: %q", fail.Text)
	}
	for ; err != nil; err = errors.Unwrap(err) {
		for _, format := range []string{"%v", "%+v", "%#v", "%q"} {
			text := fmt.Sprintf(format, err)
			for _, secret := range []string{recipient, "lovelace", username, password, "battery", code} {
				if strings.Contains(text, secret) {
					t.Errorf("an error of type %T shows %d secret bytes with %s", err, len(secret), format)
				}
			}
		}
	}
	return outcome{fail.Class, fail.Stage, fail.Status, fail.Code}
}

// blabbing is a reply whose text repeats everything that must not be repeated.
func blabbing(head string) string {
	return head + " <" + recipient + "> " + username + " " + password + " " + code
}

func expect(t *testing.T, got error, want outcome) {
	t.Helper()
	if o := outcomeOf(t, got); o != want {
		t.Errorf("got %+v, want %+v", o, want)
	}
}

func verbs(server *smtptest.Server) string {
	all := server.Commands()
	for i, line := range all {
		all[i], _, _ = strings.Cut(line, " ")
	}
	return strings.Join(all, " ")
}

// sendAll sends mails first..last one after the other; all must be accepted.
func sendAll(t *testing.T, s mailserver.Servers, first, last int) {
	t.Helper()
	for n := first; n <= last; n++ {
		if _, err := s.Send(t.Context(), smtptest.Sample(n)); err != nil {
			t.Fatalf("mail %d: %v", n, err)
		}
	}
}

// expectCounts wants so many messages, each once, over so many connections.
func expectCounts(t *testing.T, server *smtptest.Server, messages, connections int) {
	t.Helper()
	if c := server.Connections(); c != connections {
		t.Errorf("%d connections, want %d", c, connections)
	}
	smtptest.AllOnce(t, messages, server)
}

// hooked is a socket whose calls tests watch or replace; a nil hook leaves a call as it is.
type hooked struct {
	net.Conn
	read  func(p []byte) // hears what was read
	write func(p []byte) (n int, err error)
	close func() error
}

func (c *hooked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read != nil {
		c.read(p[:n])
	}
	return n, err
}

func (c *hooked) Write(p []byte) (int, error) {
	if c.write == nil {
		return c.Conn.Write(p)
	}
	return c.write(p)
}

func (c *hooked) Close() error {
	if c.close == nil {
		return c.Conn.Close()
	}
	return c.close()
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
