package delivery_test

import (
	"testing"

	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtptest"
)

// provider makes servers of one provider without a port.
func provider(t *testing.T, s *mailapitest.Server) mailserver.Servers {
	t.Helper()
	return mailserver.New(s.Account(t))
}

type outcome smtptest.Outcome

func expect(t *testing.T, err error, want outcome) {
	t.Helper()
	if got := outcome(smtptest.OutcomeOf(t, err)); got != want {
		t.Errorf("got %+v, want %+v: %v", got, want, err)
	}
}
