package outbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery/mailapi"
	"sendcode/internal/delivery/mailapi/mailapitest"
	"sendcode/internal/delivery/mailserver"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	vtest "sendcode/internal/verification/verificationtest"
)

// played is a mail server of some kind that plays a situation, once or for ever.
type played struct {
	server mailserver.Server
	play   func(situation string)
	mails  func() int
	stop   func()
}

// kinds are the mail servers that there are. Each is encrypted, and trusted unless told otherwise.
func kinds() map[string]func(r *vtest.Rig, trusted bool) played {
	all := map[string]func(r *vtest.Rig, trusted bool) played{"smtp": overSMTP}
	for _, rig := range mailapitest.Rigs() {
		all[rig.Scheme] = func(r *vtest.Rig, trusted bool) played { return overHTTPS(r, rig, trusted) }
	}
	return all
}

func overSMTP(r *vtest.Rig, trusted bool) played {
	s := smtptest.New(r.T, smtptest.Script{TLS: smtptest.Implicit})
	config, err := smtp.ParseURL(strings.Replace(s.URL(), ":", "://127.0.0.1", 1)) // without a port it has no host
	r.NoError(err)
	config.Dial = s.Dial
	if !trusted {
		config.RootCAs = nil
	}
	server, err := smtp.New(config)
	r.NoError(err)
	rules := map[string]smtptest.Rule{
		"refused":                   {Stage: smtptest.Rcpt, Reply: "550 5.7.1 no"},
		"try later":                 {Stage: smtptest.Rcpt, Reply: "451 4.7.1 later", Times: 1},
		"broken before the request": {Stage: smtptest.Handshake, Close: true, Times: 1},
		"no answer after the body":  {Stage: smtptest.Dot, Close: true},
		"silence after the body":    {Stage: smtptest.Dot, Stall: true},
		"half an answer":            {Stage: smtptest.Dot, Raw: "250 2.0", Close: true},
		"slow": {Stage: smtptest.Dot, Slow: true, Pause: 100 * time.Millisecond,
			Reply: "250 2.0.0 taken"},
	}
	return played{server, func(situation string) {
		if rule, ok := rules[situation]; ok {
			s.SetScript(smtptest.Script{TLS: smtptest.Implicit, Rules: []smtptest.Rule{rule}})
		}
	}, func() int { return len(s.Messages()) }, s.Stop}
}

func overHTTPS(r *vtest.Rig, rig mailapitest.Rig, trusted bool) played {
	s := mailapitest.New(r.T, rig)
	server := s.Account(r, func(c *mailapi.Config) {
		if !trusted {
			c.RootCAs = nil
		}
	})
	return played{server, func(situation string) {
		switch situation {
		case "refused":
			s.Script(mailapitest.Answers(rig.Refused))
		case "try later":
			s.Script(mailapitest.Accepts, mailapitest.Answers(rig.Later))
		case "broken before the request":
			s.BreakHandshakes(1)
		case "no answer after the body":
			s.Script(mailapitest.Breaks(""))
		case "silence after the body":
			s.Script(mailapitest.Stalls)
		case "half an answer":
			s.Script(mailapitest.Breaks("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"))
		case "slow":
			s.Script(mailapitest.Dawdles(100 * time.Millisecond))
		}
	}, func() int { return len(s.Mails()) }, s.Stop}
}

// Whatever takes the mails, a situation ends in the same state: of the send, of its place, and of
// the recipient's mailbox.
func TestEveryKindOfMailServer(t *testing.T) {
	const (
		sent    = "sent at attempt 1, 1 mails, 1 places"
		retried = "sent at attempt 2, 1 mails, 1 places"
		unknown = "unknown no_answer at attempt 1, 1 mails, 1 places"
	)
	for situation, want := range map[string]string{
		"accepted": sent, "slow": sent, "try later": retried, "broken before the request": retried,
		"refused":                  "failed rejected at attempt 1, 0 mails, 0 places",
		"suppressed":               "failed suppressed at attempt 1, 0 mails, 0 places",
		"wrong certificate":        "failed expired, 0 mails, 0 places",
		"no answer after the body": unknown, "silence after the body": unknown, "half an answer": unknown,
	} {
		for kind, open := range kinds() {
			t.Run(situation+"/"+kind, func(t *testing.T) {
				vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Tick = 10 * time.Second }, func(r *vtest.Rig) {
					p := open(r, situation != "wrong certificate")
					servers := mailserver.New(p.server)
					r.Svc = r.Replica(servers)
					r.Start()
					p.play(situation)
					if situation == "suppressed" {
						r.Suppress(vtest.Ana, time.Hour)
					}
					a := r.SendTo(vtest.Ana)
					r.Sleep(11 * time.Minute) // silence after SMTP's final dot is waited for ten
					got := fmt.Sprintf("%s at attempt %d", r.Status(a), r.Get(a.View.ID).Send.Attempt)
					if situation == "wrong certificate" { // it is tried until the code expires
						got = r.Status(a)
					}
					r.Want("in the end", fmt.Sprintf("%s, %d mails, %d places", got, p.mails(),
						r.QuotaOf("").Rules[2].Used), want)
					_ = servers.Close()
					r.Quit()
					p.stop()
				})
			})
		}
	}
}

// A server that closes its port costs a send no attempt while another kind of server takes mails,
// in either order.
func TestFailoverWithinOneAttempt(t *testing.T) {
	for first, open := range kinds() {
		for second, next := range kinds() {
			t.Run(first+" to "+second, func(t *testing.T) {
				vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
					closed, up := open(r, true), next(r, true)
					closed.stop()
					r.Svc = r.Replica(mailserver.New(closed.server, up.server))
					r.Start()
					a := r.SendTo(vtest.Ana)
					r.Want("in the end", fmt.Sprintf("%s at attempt %d, %d mails", r.Status(a),
						r.Get(a.View.ID).Send.Attempt, up.mails()),
						"sent at attempt 1, 1 mails")
					r.Quit()
					up.stop()
				})
			})
		}
	}
}

// A provider that knows a request again gets the one whose outcome is unknown once more: the person
// has one mail, and the send is sent.
func TestUnknownRepeatedIsOneMail(t *testing.T) {
	for _, rig := range mailapitest.Rigs() {
		if rig.Key == nil {
			continue
		}
		vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
			s := mailapitest.New(r.T, rig)
			r.Svc = r.Replica(mailserver.New(s.Account(r)))
			r.Start()
			s.Script(mailapitest.Accepts, mailapitest.Breaks(""))
			a := r.SendTo(vtest.Ana)
			r.Sleep(5 * time.Second)
			r.Want(rig.Scheme, fmt.Sprintf("%s at attempt %d, %d mails, %d requests", r.Status(a),
				r.Get(a.View.ID).Send.Attempt, len(s.Mails()), s.Requests()),
				"sent at attempt 1, 1 mails, 2 requests")
			r.Quit()
			s.Stop()
		})
	}
}
