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
		make: func(s *environment, i *incident) {
			s.sent(i, "login")
			until := i.known["until"]
			s.refused(i, "login", "minute")
			i.known["until"] = until
		},
		what: words("Refused at {refused}\n minute"),
		next: words("ask again at {free}\n code that they have works until {until}"),
	},
	{
		name:  "enough for this hour",
		make:  spent("hourly", "hour", 0),
		what:  words("Refused at {refused}\n hour"),
		next:  words("ask again at {free}\n code that they have works until {until}"),
		never: words("day"),
	},
	{
		name: "enough for this day", byAddress: true,
		make:  spent("daily", "day", 5*time.Hour),
		what:  words("Refused at {refused}\n day"),
		next:  words("ask again at {free}"),
		never: words("works until"),
	},
	{
		name: "the app's own limit",
		make: crowded(3, "campaign", "whole_app"),
		what: words("Refused at {refused}\n whole_app\n all requests of the app {app}"),
		next: words("not about this person\n ask again\n {free}"),
	},
	{
		name: "too many from one network",
		make: func(s *environment, i *incident) {
			ip := fmt.Sprintf("203.0.%d.%d", i.rand.IntN(256), 1+i.rand.IntN(254))
			crowded(2, "kiosk", "office", func(body map[string]any) { body["client_ip"] = ip })(s, i)
		},
		what: words("Refused at {refused}\n office\n one network"),
		next: words("not about this person\n another network\n {free}"),
	},
	{
		name: "too many of everybody",
		make: crowded(3, "launch", "everybody"),
		what: words("Refused at {refused}\n everybody\n all apps"),
		next: words("not about this person\n {free}"),
	},
	{
		name:   "their mail server refused too many",
		before: replies("550 5.2.1 mailbox disabled"),
		make: func(s *environment, i *incident) {
			s.ask(i, "signup")
			s.ask(i, "signup")
			s.refused(i, "signup", "failures")
			i.support = ""
		},
		what: words("Refused at {refused}\n failures\n could not be delivered"),
		next: words("another address\n ask again at {free}"),
	},
}

// Mails and messages that a server or a carrier did not take.
var refusedByThem = []*kind{
	{
		name: "no such address", old: true,
		before: replies("550 5.1.1 no such user"),
		make: func(s *environment, i *incident) {
			began := time.Now()
			s.ask(i, "order")
			i.barred(began)
		},
		what:  words("Rejected by\n at {ended}\n no such mailbox there\n 550 5.1.1"),
		next:  words("spelling\n letter by letter\n did not count\n no mail until {barred}"),
		never: words("spam"),
	},
	{
		name: "rejected for what we are", old: true,
		before: replies("554 5.7.1 listed"),
		make:   func(s *environment, i *incident) { s.ask(i, "order") },
		what:   words("Rejected by\n at {ended}\n policy\n 554 5.7.1"),
		next:   words("about us\n SPF, DKIM"),
		never:  words("letter by letter"),
	},
	{
		name: "mailbox full to the end", old: true,
		before: replies("452 4.2.2 mailbox full"),
		make: func(s *environment, i *incident) {
			s.postponed(i)
			s.hurry(i, 3*time.Second)
		},
		settle: func(s *environment, i *incident) { s.failed(i, "expired") },
		what:   words("did not get out before its code expired at {until}\n mailbox is full\n 452 4.2.2"),
		next:   words("make room\n another address"),
		never:  words("between us and"),
	},
	{
		name: "put off, and tried again", live: true,
		before: replies("451 4.7.1 greylisted, come again"),
		make: func(s *environment, i *incident) {
			s.postponed(i)
			s.rests(i)
		},
		what:  words("waits for its next attempt\n 451 4.7.1"),
		next:  words("next try is due at\n until {until}\n some minutes"),
		reply: said("has not gone out yet\n delayed\n works for another\n minutes", "还没有发出\n 被推迟\n 分钟内有效"),
		never: words("spam\n ask again"),
	},
	{
		name: "our mail server was down", old: true, down: true,
		make: func(s *environment, i *incident) {
			s.postponed(i)
			s.hurry(i, 3*time.Second)
		},
		settle: func(s *environment, i *incident) { s.failed(i, "expired") },
		what:   words("did not get out before its code expired at {until}\n could not be reached"),
		next:   words("between us and\n ask for a new code"),
		reply:  said("The fault is on our side\n ask for a new code", "问题在我们这边\n 重新获取"),
		never:  words("make room\n letter by letter"),
	},
	{
		name: "the carrier's own limit for a number", sms: true,
		before: func(s *environment, i *incident) { s.carrier.Answer(i.to, "9") },
		make: func(s *environment, i *incident) {
			began := time.Now()
			s.ask(i, "order")
			i.known["held"] = fact{from: began.Add(time.Hour), to: time.Now().Add(time.Hour)}
		},
		what: words("tower\n takes no more\n number"),
		next: words("{held}\n did not count"),
	},
}

// spent makes two sends, which may grow old, and a third that the rule refuses.
func spent(purpose, rule string, age time.Duration) func(*environment, *incident) {
	return func(s *environment, i *incident) {
		s.sent(i, purpose)
		s.sent(i, purpose)
		if age > 0 {
			s.age(i, age)
		}
		s.refused(i, purpose, rule)
	}
}

// crowded has so many other people ask before this one, whom the rule refuses.
func crowded(others int, purpose, rule string, change ...func(map[string]any)) func(*environment, *incident) {
	return func(s *environment, i *incident) {
		s.others(i, others, purpose, change...)
		s.refused(i, purpose, rule, change...)
	}
}

func replies(text string) func(*environment, *incident) {
	return func(s *environment, i *incident) {
		s.rules = append(s.rules, smtptest.Rule{Stage: smtptest.Rcpt, To: i.to, Reply: text})
	}
}

// postponed is a request whose first attempt did not get through.
func (s *environment) postponed(i *incident) {
	s.Helper()
	began := time.Now()
	a := s.post("/v1/verifications",
		map[string]any{"channel": string(i.channel), "to": i.to, "purpose": "order", "locale": i.locale}, by(i.app))
	i.happened("asked", began)
	i.knows("until", a.ExpiresAt)
	i.support = a.Send.Support
	s.await(i, "the first attempt", func(rows []row) bool { return rows[0].Status == "queued" && rows[0].Reason != "" })
}

// failed waits until the newest request has.
func (s *environment) failed(i *incident, reason string) {
	s.Helper()
	s.await(i, "the end", func(rows []row) bool { return rows[0].Status == "failed" && rows[0].Reason == reason })
}
