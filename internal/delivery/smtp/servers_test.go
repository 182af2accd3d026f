package smtp_test

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// TestServersInOrder: the next server is asked only when the message was certainly not accepted and may be elsewhere.
func TestServersInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		rule          smtptest.Rule
		down          bool
		want          outcome
		first, second int
	}{
		"the first works":         {first: 1},
		"the first is down":       {down: true, second: 1},
		"the first is busy":       {rule: smtptest.Rule{Stage: smtptest.Greet, Reply: "421 4.3.2 busy", Close: true}, second: 1},
		"the first defers":        {rule: smtptest.Rule{Stage: smtptest.Rcpt, Reply: "451 4.7.1 later"}, second: 1},
		"the first wants no mail": {rule: smtptest.Rule{Stage: smtptest.Greet, Reply: "554 5.3.2 no service", Close: true}, second: 1},
		"the first cannot log in": {rule: smtptest.Rule{Stage: smtptest.Mail, Reply: "530 5.7.0 log in"}, second: 1},
		"the first rejects": {rule: smtptest.Rule{Stage: smtptest.Rcpt, Reply: "550 5.1.1 no"},
			want: outcome{delivery.Rejected, delivery.StageRcpt, 550, "5.1.1"}},
		"the first is silent after the dot": {rule: smtptest.Rule{Stage: smtptest.Dot, Close: true}, first: 1,
			want: outcome{class: delivery.Unknown, stage: delivery.StageDot}},
	} {
		t.Run(name, func(t *testing.T) {
			first := smtptest.Start(t, misbehaving(c.rule))
			second := smtptest.Start(t, smtptest.Script{})
			if c.down {
				first.Stop()
			}
			configs, err := smtp.ParseURLs(first.URL() + "," + second.URL())
			if err != nil {
				t.Fatal(err)
			}
			servers, err := smtp.NewServers(configs...)
			if err != nil {
				t.Fatal(err)
			}
			defer servers.Close()
			receipt, err := servers.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, c.want)
			if len(first.Messages()) != c.first || len(second.Messages()) != c.second {
				t.Errorf("%d and %d messages, want %d and %d", len(first.Messages()), len(second.Messages()), c.first, c.second)
			}
			if receipt.Provider != "127.0.0.1" || receipt.Took <= 0 {
				t.Errorf("receipt %+v", receipt)
			}
		})
	}
}

// TestServersStopWithTheContext: a server that used up the time leaves none for the next.
func TestServersStopWithTheContext(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		first := smtptest.New(t, misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Stall: true}))
		second := smtptest.New(t, smtptest.Script{})
		servers := smtp.Servers{piped(t, first), piped(t, second)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := servers.Send(ctx, smtptest.Sample(1))
		expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageRcpt})
		if second.Connections() != 0 {
			t.Error("the second server was dialled")
		}
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
}
