package drill

import (
	"strings"
	"time"
)

// Requests that were let in, and not handed over.
var stopped = []*kind{
	{
		name: "suppressed since a bounce", byAddress: true,
		before: replies("550 5.1.1 no such user"),
		make: func(s *environment, i *incident) {
			began := time.Now()
			s.ask(i, "order")
			i.happened("since", began)
			i.barred(began)
			s.age(i, 50*time.Hour)
			since, barred := i.known["since"], i.known["barred"]
			s.ask(i, "order")
			i.known["since"], i.known["barred"] = since, barred
		},
		what:  words("Nothing was sent\n since {since}\n gets no mail\n no such mailbox"),
		next:  words("until {barred}\n lift it at Suppressions\n ask again\n did not count"),
		never: words("spam\n Accepted"),
	},
	{
		name: "paused", old: true,
		make:  func(s *environment, i *incident) { s.ask(i, "frozen") },
		what:  words("Nothing was sent\n paused"),
		next:  words("still is\n " + frozenWhy + "\n `stop`\n did not count"),
		never: words("spam"),
	},
	{
		name: "blocked", old: true,
		before: func(_ *environment, i *incident) {
			local, _, _ := strings.Cut(i.to, "@")
			i.to = local + "@traps.example"
		},
		make:  func(s *environment, i *incident) { s.ask(i, "order") },
		what:  words("not sent\n block list"),
		next:  words("`stop`\n ask again"),
		never: words("spam"),
	},
}

// What left no trace, or none any more.
var gone = []*kind{
	{
		name: "nothing reached us",
		// no other is spelled almost the same
		make: func(_ *environment, i *incident) { i.to = "far.from.everybody." + i.to },
		what: words("No request\n reached us"),
		next: words("spell it\n reference\n ask again"),
	},
	{
		name: "asked for a misspelled domain",
		make: func(s *environment, i *incident) {
			local, domain, _ := strings.Cut(i.to, "@")
			if domain == "qq.com" {
				domain = "gmail.com"
			}
			right, at := local+"@"+domain, 1+i.rand.IntN(2)
			// two letters changed places
			i.to = local + "@" + domain[:at] + domain[at+1:at+2] + domain[at:at+1] + domain[at+2:]
			s.sent(i, "order")
			_, wrong, _ := strings.Cut(i.to, "@")
			i.knowsWord("wrong", wrong)
			i.to, i.support = right, ""
		},
		what:  words("No request\n reached us\n @{wrong}\n {asked}"),
		next:  words("how they spelled\n ask again"),
		never: words("spam"),
	},
	{
		name: "number of a country that is not served", sms: true,
		make: func(s *environment, i *incident) {
			i.to = "+120255501" + i.to[len(i.to)-2:]
			s.Is(i.kind.name, s.request(i, "order"), 422)
		},
		what:  words("country\n not served"),
		next:  words("another number\n countries"),
		never: words("spam"),
	},
	{
		name: "erased", byAddress: true, old: true,
		make: func(s *environment, i *incident) {
			s.sent(i, "order")
			s.erase(i)
			i.erased = true
		},
		what:  words("Accepted by\n at {ended}\n erased"),
		next:  words("ended with it\n ask for a new one"),
		never: words("spam"),
	},
}
