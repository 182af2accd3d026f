package delivery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
)

// TestCancelling ends the context while the server thinks, at every stage: before the final dot nothing was
// sent, after it nobody knows.
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
			synctest.Test(t, func(t *testing.T) {
				server := smtptest.New(t, smtptest.Script{Rules: []smtptest.Rule{{Stage: stage, Times: 1, Delay: 20 * time.Second}}})
				s := piped(t, server)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				big := message(1)
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
				_, err = s.Send(t.Context(), message(2))
				expect(t, err, outcome{})
			})
		})
	}
}

func TestCancelledBeforehand(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sender(t, server).Send(ctx, message(1))
	expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageDial})
	if !errors.Is(err, context.Canceled) || server.Connections() != 0 {
		t.Errorf("%v after %d connections", err, server.Connections())
	}
}

// TestCancelledAfterAcceptance: the 250 was read, so what the context does afterwards changes nothing.
func TestCancelledAfterAcceptance(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	s := sender(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Send(ctx, message(1))
	cancel()
	expect(t, err, outcome{})
	_, err = s.Send(t.Context(), message(2))
	expect(t, err, outcome{})
	if server.Connections() != 1 {
		t.Errorf("the kept connection went with the old context")
	}
}
