package drill

import (
	"net/http"
	"time"

	"sendcode/internal/delivery/smtptest"
)

// Codes that were sent, and what became of them.
var arrived = []*kind{
	{
		name:  "accepted, and nothing in the inbox",
		make:  func(s *environment, i *incident) { s.sent(i, "order") },
		what:  words("Accepted by\n at {ended}\n(250"),
		next:  words("spam\n works until {until}"),
		never: words("asked again"),
	},
	{
		name: "ran out without being entered", old: true, others: true,
		make: func(s *environment, i *incident) {
			s.sent(i, "order")
			s.age(i, 11*time.Minute)
		},
		what:  words("Accepted by\n at {ended}"),
		next:  words("expired at {until}\n ask for a new one\n spam"),
		never: words("works until"),
	},
	{
		name: "entered and approved", old: true, others: true,
		make: func(s *environment, i *incident) {
			a := s.sent(i, "order")
			began := time.Now()
			if !s.check(i, a.ID, s.codeOf(i)) {
				s.Fatal("the right code is wrong")
			}
			i.happened("approved", began)
		},
		what:  words("Accepted by\n at {ended}"),
		next:  words("entered\n approved at {approved}\n nothing to do"),
		never: words("spam\n new one"),
	},
	{
		name: "typed wrongly until it locked", old: true,
		make: func(s *environment, i *incident) {
			a := s.sent(i, "order")
			right := s.codeOf(i)
			for range 5 {
				began := time.Now()
				if s.check(i, a.ID, s.Wrong(right)) {
					s.Fatal("the wrong code is right")
				}
				i.happened("last", began)
			}
		},
		what:  words("Locked after 5 wrong codes, the last at {last}\n Accepted by\n at {ended}"),
		next:  words("older code\n guessed\n ask for a new one"),
		reply: said("entered wrongly too often\n ask for a new one", "输错次数过多\n 重新获取"),
		never: words("works until\n spam"),
	},
	{
		name: "canceled by the app", old: true, others: true,
		make: func(s *environment, i *incident) {
			a := s.sent(i, "order")
			began := time.Now()
			s.Is("canceling", s.post("/v1/verifications/"+a.ID+"/cancel", map[string]any{}, by(i.app)), http.StatusOK)
			i.happened("canceled", began)
		},
		what:  words("Accepted by\n at {ended}"),
		next:  words("canceled at {canceled}\n no longer works\n ask for a new one"),
		never: words("spam"),
	},
	{
		name: "no answer after the whole mail",
		before: func(s *environment, i *incident) {
			s.rules = append(s.rules, smtptest.Rule{Stage: smtptest.Dot, To: i.to, Close: true})
		},
		make:  func(s *environment, i *incident) { s.ask(i, "order") },
		what:  words("whole mail was handed to\n not answered\n may arrive, or not"),
		next:  words("inbox and in spam\n same code\n until {until}"),
		never: words("Accepted\n Rejected"),
	},
	{
		name: "bounced afterwards", old: true,
		make:  told("gone", "550 5.1.1"),
		what:  words("Accepted by\n at {ended}\n bounced later, at {told}\n post\n 550 5.1.1"),
		next:  words("did not arrive\n address with them, letter by letter\n no mail until {barred}"),
		never: words("spam"),
	},
	{
		name: "bounced afterwards, mailbox full", old: true, others: true,
		make:  told("full", "552 5.2.2"),
		what:  words("Accepted by\n at {ended}\n bounced later, at {told}\n mailbox is full"),
		next:  words("did not arrive\n make room\n another address"),
		never: words("letter by letter\n spam"),
	},
	{
		name: "called spam", old: true,
		make: told("spam", "abuse"),
		what: words("Accepted by\n at {ended}\n {told}\n called spam"),
		next: words("spam folder\n no mail until {barred}\n lift"),
	},
	{
		name: "text message, taken and not there", sms: true,
		make:  func(s *environment, i *incident) { s.sent(i, "order") },
		what:  words("Accepted by tower at {ended}"),
		next:  words("phone\n unknown senders\n works until {until}"),
		never: words("spam folder\n inbox\n mail"),
	},
	{
		name: "text message, did not come to the phone", sms: true,
		make:  receipt("lost"),
		what:  words("Accepted by tower\n did not come to the phone"),
		next:  words("phone on\n number theirs\n ask again"),
		never: words("mail"),
	},
	{
		name: "text message, came to the phone", sms: true,
		make:  receipt("ok"),
		what:  words("Accepted by tower\n delivered to the phone"),
		next:  words("It arrived\n unknown senders\n works until {until}"),
		never: words("mail"),
	},
	{
		name: "asked again since, and the newer one works", byReference: true,
		make: func(s *environment, i *incident) {
			session := func(name string) func(map[string]any) {
				return func(body map[string]any) { body["session"] = name }
			}
			s.sent(i, "order", session("one"))
			first := i.support
			s.age(i, 25*time.Minute)
			<-time.After(time.Second) // two of one second may have one reference
			s.sent(i, "order", session("two"))
			i.support = first
		},
		what:  words("They asked again at {asked}: sent\n Accepted by\n at {ended}"),
		next:  words("spam\n works until {until}"),
		never: words("ran out"),
	},
}

// told is a mail that was accepted, and an event of the provider about it afterwards.
func told(kind, detail string) func(*environment, *incident) {
	return func(s *environment, i *incident) {
		a := s.sent(i, "order")
		began := time.Now()
		s.tells(i, a.Send.ID, kind, detail)
		i.barred(began) // where the event bars the address
	}
}

// receipt is a text message that was accepted, and the carrier's report about it.
func receipt(status string) func(*environment, *incident) {
	return func(s *environment, i *incident) {
		s.sent(i, "order")
		s.reports(i, status)
	}
}
