package demo

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"sendcode/internal/recipient"
	"sendcode/internal/verification"
)

// Recipient is a made-up person to whom codes are sent.
type Recipient struct {
	Channel recipient.Channel
	To      string // a mailbox of a domain that is reserved for examples (RFC 2606), or a number
	Locale  string
}

var (
	personNames = strings.Fields(
		"ana ben chen dora emil fatima goran hanna ines jonas kaya li.wei maria.diaz noor olga.novak paul qiu rosa.berg sven " +
			"tomas uma vera wei yara zoe")
	mailDomains  = strings.Fields("mail mail mail mail mail mail post post post inbox inbox inbox campus campus firm")
	locales      = strings.Fields("en en en-GB zh-CN zh-CN de")
	phoneFormats = map[string]string{"CN": "+8613812%06d", "DE": "+4915123%06d", "FR": "+336123%05d", "GB": "+447400%06d",
		"US": "+1201555%04d"}
)

// inventRecipient makes up the n-th recipient: a phone in one of the countries, or a mailbox if no
// country is given. n is at most 9,999.
func inventRecipient(rng *rand.Rand, n int, countries ...string) Recipient {
	r := Recipient{Channel: recipient.Email, Locale: locales[rng.IntN(len(locales))]}
	if len(countries) > 0 {
		r.Channel, r.To = recipient.SMS, fmt.Sprintf(phoneFormats[countries[rng.IntN(len(countries))]], n)
		return r
	}
	r.To = fmt.Sprintf("%s.%d@%s.example", personNames[rng.IntN(len(personNames))], n, mailDomains[rng.IntN(len(mailDomains))])
	return r
}

// person is a recipient with the app and the client that ask for its codes, and with habits.
type person struct {
	Recipient
	verification.Caller
	neverEnters, clumsy bool // clumsy: mistypes
}

// newPeople returns n people, three in ten of them with a phone.
func newPeople(rng *rand.Rand, n int) (all []person) {
	oneIn := func(n int) bool { return rng.IntN(n) == 0 }
	for i := range n {
		p := newVisitor(inventRecipient(rng, i), "shop", randomIP(rng))
		switch {
		case rng.IntN(10) < 3:
			p.Recipient = inventRecipient(rng, 1000+i, "CN", "DE", "FR", "GB", "US")
		case oneIn(15):
			p.To = fmt.Sprintf("leo.%d@%s", i, []string{noMailboxDomain, fullMailboxDomain}[i%2])
		}
		if oneIn(4) {
			p.App = "bank"
		}
		if oneIn(2) {
			p.Kind = verification.BackEnd
		}
		p.neverEnters, p.clumsy = oneIn(14), oneIn(9)
		all = append(all, p)
	}
	return all
}

// newVisitor returns a person with a browser on a page of an app.
func newVisitor(r Recipient, app string, ip netip.Addr) person {
	return person{Recipient: r, Caller: verification.Caller{App: app, Kind: verification.Browser, IP: ip}}
}

// randomIP returns an address of the networks that are reserved for documentation (RFC 5737).
func randomIP(rng *rand.Rand) netip.Addr {
	nets := [][3]byte{{198, 51, 100}, {203, 0, 113}}
	n := nets[rng.IntN(len(nets))]
	return netip.AddrFrom4([4]byte{n[0], n[1], n[2], byte(1 + rng.IntN(254))})
}

var attackerIP = netip.AddrFrom4([4]byte{192, 0, 2, 77})
