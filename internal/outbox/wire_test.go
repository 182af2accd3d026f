package outbox_test

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

// A mail server misbehaves once on the wire: the state of the send and of its place, from the socket to the row.
func TestFromTheWireToTheRow(t *testing.T) {
	const (
		given   = "failed, and the place given back"
		retried = "queued with its place spent, then sent"
		unknown = "unknown, its place spent, never sent again"
		sent    = "sent"
	)
	long := "250 " + strings.Repeat("x", 100_000) + "\r\n"
	type row struct {
		rule smtptest.Rule
		want string
	}
	cases := []row{
		{smtptest.Rule{Stage: smtptest.Dot, Stall: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Close: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "what?", Close: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Raw: long, Close: true}, unknown},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "550 5.7.1 not this", Slow: true, Pause: time.Second}, given},
		{smtptest.Rule{Stage: smtptest.Dot, Slow: true, Pause: time.Second, Reply: "250 2.0.0 taken"}, sent},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "421 4.3.2 closing", Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Dot, Reply: "550 5.1.1 no"}, given},
		{smtptest.Rule{Stage: smtptest.Body, Close: true}, retried},
		{smtptest.Rule{Stage: smtptest.Greet, Reply: "554 5.3.2 no service", Close: true}, retried},
	}
	for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data} {
		for _, rule := range []smtptest.Rule{
			{Stall: true}, {Close: true}, {Reply: "what?", Close: true}, {Raw: long, Close: true},
			{Reply: "421 4.3.2 closing", Close: true}, {Slow: true, Pause: time.Second, Reply: "250 " + strings.Repeat("x", 40)},
		} {
			rule.Stage = stage
			cases = append(cases, row{rule, retried})
		}
		if stage != smtptest.Greet && stage != smtptest.Hello {
			cases = append(cases, row{smtptest.Rule{Stage: stage, Reply: "550 5.1.1 no"}, given})
		}
	}
	for _, c := range cases {
		c.rule.Times = 1
		t.Run(string(c.rule.Stage)+" "+c.want, func(t *testing.T) {
			vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
				server := smtptest.New(r.T, smtptest.Script{Rules: []smtptest.Rule{c.rule}})
				servers, err := smtp.NewServers(smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: server.Dial})
				r.NoError(err)
				r.Svc = r.Replica(servers)
				r.Start()
				a := r.SendTo(vtest.Ana)
				status := func() (store.Status, string) { s := r.Get(a.View.ID).Send; return s.Status, s.Reason }
				first := store.Sending
				for i := 0; first == store.Sending && i < 1000; i++ { // ten minutes after the dot, at most
					r.Sleep(time.Second)
					first, _ = status()
				}
				r.Sleep(45 * time.Second) // retries
				last, reason := status()
				mails, spent := len(server.Messages()), r.QuotaOf("").Rules[2].Used == 1
				got := map[bool]string{
					first == store.Failed && reason == store.ReasonRejected && mails == 0 && !spent: given,
					first == store.Queued && last == store.Sent && mails == 1 && spent:              retried,
					first == store.Unknown && last == store.Unknown && mails == 1 && spent:          unknown,
					first == store.Sent && last == store.Sent && mails == 1 && spent:                sent,
				}[true]
				if got != c.want {
					t.Errorf("first %s, then %s %s, %d mails, place spent: %v; want %s", first, last, reason, mails, spent, c.want)
				}
				_ = servers.Close()
				r.Quit()
				server.Stop()
			})
		})
	}
}
