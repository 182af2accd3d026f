package mailbox_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
)

func TestMailboxPlaysOutcomes(t *testing.T) {
	const slow = 300 * time.Millisecond
	box, s := open(t)
	box.Slow(slow)
	for to, want := range map[string]struct {
		class delivery.Class
		reply string
		kept  bool
	}{
		"BOUNCE+7@simulator.test":       {delivery.Rejected, "550 5.1.1", false},
		"unknown+new@simulator.test":    {delivery.Unknown, "", true},
		"bounce@simulator.test.example": {"", "250 2.0.0", true},
		"bouncer@simulator.test":        {"", "250 2.0.0", true},
	} {
		m := smtptest.Sample(1)
		m.To = to
		before := len(box.Messages())
		receipt, err := s.Send(t.Context(), m)
		var e *delivery.Error
		switch failed := errors.As(err, &e); {
		case want.class == "" && (err != nil || receipt.Code != want.reply):
			t.Errorf("%s: %+v, %v", to, receipt, err)
		case want.class != "" && (!failed || e.Class != want.class || e.Reply() != want.reply):
			t.Errorf("%s: %+v", to, err)
		}
		if kept := len(box.Messages()) > before; kept != want.kept {
			t.Errorf("%s: kept %v", to, kept)
		}
	}
	m := smtptest.Sample(1)
	m.To = "slow@simulator.test"
	begin := time.Now()
	if _, err := s.Send(t.Context(), m); err != nil || time.Since(begin) < slow {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

// A mail that is held back does not hold up the end of the program.
func TestClosingDoesNotWaitForTheSlow(t *testing.T) {
	box, s := open(t)
	box.Slow(time.Hour)
	m := smtptest.Sample(1)
	m.To = "slow@simulator.test"
	sent := make(chan error)
	go func() { _, err := s.Send(t.Context(), m); sent <- err }()
	for len(box.Messages()) == 0 {
		select {
		case err := <-sent:
			t.Logf("ended: %v", err)
			return
		case <-time.After(50 * time.Millisecond):
			if err := box.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-sent
}
