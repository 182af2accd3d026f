package mailserver_test

import (
	"errors"
	"testing"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/mailapi"
	"sendcode/internal/delivery/mailapi/mailapitest"
	"sendcode/internal/delivery/mailserver"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
)

// sender makes servers of one server without a port.
func sender(t *testing.T, server *smtptest.Server) mailserver.Servers {
	t.Helper()
	return newSender(t, smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: server.Dial})
}

func newSender(t *testing.T, config smtp.Config) mailserver.Servers {
	t.Helper()
	server, err := smtp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := mailserver.New(server)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// provider makes servers of one provider without a port.
func provider(t *testing.T, s *mailapitest.Server) mailserver.Servers {
	t.Helper()
	config, err := mailapi.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = s.Dial
	server, err := mailapi.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return mailserver.New(server)
}

// outcome is what a test expects of one Send; the zero outcome is acceptance.
type outcome struct {
	class    delivery.Class
	stage    string
	code     int
	enhanced string
}

func expect(t *testing.T, err error, want outcome) {
	t.Helper()
	got := outcome{}
	if fail, ok := errors.AsType[*delivery.Error](err); ok {
		got = outcome{fail.Class, fail.Stage, fail.Status, fail.Code}
	}
	if got != want || (err == nil) != (want == outcome{}) {
		t.Errorf("got %+v, want %+v: %v", got, want, err)
	}
}
