package drill

import (
	"fmt"
	"time"

	"sendcode/internal/delivery/smtptest"
)

// Requests that our own rules were against.
var refusedByUs = []*kind{
	{
		name: "asked again too soon", live: true,
		make: func(s *street, i *incident) {
			s.sent(i, "login")
			until := i.known["until"]
			s.refused(i, "login", "minute")
			i.known["until"] = until
		},
		what: words("Refused at {refused}\n minute"),
		next: words("ask again at {free}\n code that they have works until {until}"),
	},
	{
		name: "too many from one network",
		make: func(s *street, i *incident) {
			ip := fmt.Sprintf("203.0.%d.%d", i.rand.IntN(256), 1+i.rand.IntN(254))
			from := func(body map[string]any) { body["client_ip"] = ip }
			s.others(i, 2, "kiosk", from)
			s.refused(i, "kiosk", "office", from)
		},
		what: words("Refused at {refused}\n office\n one network"),
		next: words("not about this person\n another network\n {free}"),
	},
}

// Mails and messages that a server or a carrier did not take.
var refusedByThem = []*kind{
	{
		name: "no such address", old: true,
		before: replies("550 5.1.1 no such user"),
		make: func(s *street, i *incident) {
			began := time.Now()
			s.ask(i, "order")
			i.barred(began)
		},
		what:  words("Rejected by\n at {ended}\n no such mailbox there\n 550 5.1.1"),
		next:  words("spelling\n letter by letter\n did not count\n no mail until {barred}"),
		never: words("spam"),
	},
	{
		name: "put off, and tried again", live: true,
		before: replies("451 4.7.1 greylisted, come again"),
		make: func(s *street, i *incident) {
			s.postponed(i)
			s.rests(i)
		},
		what:  words("waits for its next attempt\n 451 4.7.1"),
		next:  words("next try is due at\n until {until}\n some minutes"),
		never: words("spam\n ask again"),
	},
}

func replies(text string) func(*street, *incident) {
	return func(s *street, i *incident) {
		s.rules = append(s.rules, smtptest.Rule{Stage: smtptest.Rcpt, To: i.to, Reply: text})
	}
}

// postponed is a request whose first attempt did not get through.
func (s *street) postponed(i *incident) {
	s.Helper()
	began := time.Now()
	a := s.post("/v1/verifications", keyOf(i.app), map[string]any{"channel": string(i.channel), "to": i.to, "purpose": "order",
		"locale": i.locale})
	i.happened("asked", began)
	i.knows("until", a.ExpiresAt)
	i.support = a.Send.Support
	s.await(i, "the first attempt", func(rows []row) bool { return rows[0].Status == "queued" && rows[0].Reason != "" })
}

// failed waits until the newest request has.
func (s *street) failed(i *incident, reason string) {
	s.Helper()
	s.await(i, "the end", func(rows []row) bool { return rows[0].Status == "failed" && rows[0].Reason == reason })
}
