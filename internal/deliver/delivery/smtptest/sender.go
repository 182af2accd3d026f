package smtptest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
)

// Sender makes a sender for the server, with the changes. If the server has a port, the sender uses
// it. The sender is closed when the test ends.
func (s *Server) Sender(t testing.TB, change ...func(*smtp.Config)) mailserver.Servers {
	t.Helper()
	config := smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: s.Dial}
	if s.Addr() != "" {
		var err error
		if config, err = smtp.ParseURL(s.URL()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range change {
		c(&config)
	}
	return NewSender(t, config)
}

// NewSender makes a sender for one server, closed with the test.
func NewSender(t testing.TB, config smtp.Config) mailserver.Servers {
	t.Helper()
	one, err := smtp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := mailserver.New(one)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Outcome is the outcome that a test expects of one Send; the zero Outcome is acceptance.
type Outcome struct {
	Class  delivery.ErrorClass
	Stage  string
	Status int
	Code   string
}

// Expect fails the test unless an error of Send is the expected one; see [OutcomeOf].
func Expect(t testing.TB, err error, want Outcome, secrets ...string) {
	t.Helper()
	if got := OutcomeOf(t, err, secrets...); got != want {
		t.Errorf("got %+v, want %+v: %v", got, want, err)
	}
}

// OutcomeOf returns the outcome in an error of Send. It fails the test if the error, or an error
// that it wraps, prints a secret: one of a [Sample], or one of these secrets.
func OutcomeOf(t testing.TB, err error, secrets ...string) Outcome {
	t.Helper()
	if err == nil {
		return Outcome{}
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
			for _, secret := range append(secrets, Recipient, "lovelace", Code) {
				if strings.Contains(text, secret) {
					t.Errorf("an error of type %T shows %d secret bytes with %s", err, len(secret), format)
				}
			}
		}
	}
	return Outcome{fail.Class, fail.Stage, fail.Status, fail.Code}
}
