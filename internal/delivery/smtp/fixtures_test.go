package smtp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/delivery"
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

// sender makes a sender for a server on a port, changed as wanted, closed with the test.
func sender(t *testing.T, server *smtptest.Server, change ...func(*smtp.Config)) *smtp.Client {
	t.Helper()
	config, err := smtp.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	return newSender(t, config, change...)
}

// overTCP starts a server on a port, and makes a sender for it.
func overTCP(t *testing.T, script smtptest.Script, change ...func(*smtp.Config)) (*smtptest.Server, *smtp.Client) {
	t.Helper()
	server := smtptest.Start(t, script)
	return server, sender(t, server, change...)
}

// inBubble makes a server without a port, and a sender for it.
func inBubble(t *testing.T, script smtptest.Script, change ...func(*smtp.Config)) (*smtptest.Server, *smtp.Client) {
	t.Helper()
	server := smtptest.New(t, script)
	return server, piped(t, server, change...)
}

// pipelining are the keywords of a server that takes commands together.
var pipelining = []string{"PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES", "SMTPUTF8"}

// bothWays runs a test against servers that take commands one by one, and together.
func bothWays(t *testing.T, test func(t *testing.T, extensions []string)) {
	t.Run("one by one", func(t *testing.T) { test(t, nil) })
	t.Run("pipelined", func(t *testing.T) { test(t, pipelining) })
}

// piped makes a sender for a server without a port, for use in a bubble.
func piped(t *testing.T, server *smtptest.Server, change ...func(*smtp.Config)) *smtp.Client {
	t.Helper()
	config := smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: server.Dial}
	return newSender(t, config, change...)
}

func newSender(t *testing.T, config smtp.Config, change ...func(*smtp.Config)) *smtp.Client {
	t.Helper()
	for _, c := range change {
		c(&config)
	}
	s, err := smtp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// outcome is what a test expects of one Send; the zero outcome is acceptance.
type outcome struct {
	class    delivery.Class
	stage    string
	code     int
	enhanced string
}

func (o outcome) String() string {
	if o.class == "" {
		return "accepted"
	}
	return fmt.Sprintf("%s at %s (%d %s)", o.class, o.stage, o.code, o.enhanced)
}

// outcomeOf reads an error of Send, and checks that it keeps its secrets.
func outcomeOf(t *testing.T, err error) outcome {
	t.Helper()
	if err == nil {
		return outcome{}
	}
	var fail *delivery.Error
	if !errors.As(err, &fail) {
		t.Fatalf("error of type %T, want *delivery.Error", err)
	}
	discreet(t, err)
	return outcome{fail.Class, fail.Stage, fail.Status, fail.Code}
}

// discreet checks an error and everything that it wraps, in every way of printing it.
func discreet(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, format := range []string{"%v", "%+v", "%#v", "%q"} {
			text := fmt.Sprintf(format, err)
			for _, secret := range []string{recipient, "ada", "lovelace", username, password, "battery", code} {
				if strings.Contains(text, secret) {
					t.Errorf("an error of type %T shows %d secret bytes with %s", err, len(secret), format)
				}
			}
		}
	}
}

// blabbing is a reply whose text repeats everything that must not be repeated.
func blabbing(head string) string {
	return head + " <" + recipient + "> " + username + " " + password + " " + code
}

func expect(t *testing.T, got error, want outcome) {
	t.Helper()
	if o := outcomeOf(t, got); o != want {
		t.Errorf("got %v, want %v", o, want)
	}
}

func verbs(server *smtptest.Server) string {
	var all []string
	for _, line := range server.Commands() {
		verb, _, _ := strings.Cut(line, " ")
		all = append(all, verb)
	}
	return strings.Join(all, " ")
}
