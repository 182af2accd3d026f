package demo

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// person is a made-up recipient: its address, and the app and the client by which it asks for codes.
type person struct {
	channel, to     string
	locale          string
	app             string
	ip              netip.Addr
	browser         bool // asks from a page, not through a back end
	neverEnters     bool
	clumsy, hurried bool // mistypes; asks again too soon
}

var (
	names = strings.Fields("ana ben chen dora emil fatima goran hanna ines jonas " +
		"kaya li mei noor olga paul qiu rosa sven tomas uma vera wei yara zoe")
	// Domains are reserved for examples (RFC 2606), weighted by how often they stand here.
	domains = strings.Fields("mail.example mail.example mail.example mail.example mail.example mail.example mail.example mail.example " +
		"post.example post.example post.example post.example post.example inbox.example inbox.example inbox.example inbox.example " +
		"campus.example campus.example campus.example firm.example firm.example " + fullMailbox)
	phones = []struct {
		format string
		span   int
		locale string
	}{
		{"+4915123%06d", 900000, "de"}, {"+4917612%06d", 900000, "de"}, {"+1201555%04d", 9000, "en"}, {"+8613812%06d", 900000, "zh-CN"},
		{"+8615901%06d", 900000, "zh-CN"}, {"+447400%06d", 900000, "en"}, {"+336123%05d", 90000, "fr"},
	}
	locales = []string{"en", "en", "en", "zh-CN", "zh-CN", "de"}
)

// newPeople returns n people, three in ten of them with a phone.
func newPeople(rng *rand.Rand, n int) (all []person) {
	for i := range n {
		p := person{channel: "email", app: "shop", locale: locales[rng.IntN(len(locales))], ip: randomIP(rng), browser: rng.IntN(2) == 0}
		if rng.IntN(4) == 0 {
			p.app = "bank"
		}
		switch {
		case rng.IntN(10) < 3:
			f := phones[rng.IntN(len(phones))]
			p.channel, p.to, p.locale = "sms", fmt.Sprintf(f.format, rng.IntN(f.span)+f.span/10), f.locale
		case rng.IntN(40) == 0:
			p.to = fmt.Sprintf("%s.%d@%s", names[rng.IntN(len(names))], i, noMailbox)
		default:
			p.to = fmt.Sprintf("%s.%d@%s", names[rng.IntN(len(names))], i, domains[rng.IntN(len(domains))])
		}
		p.neverEnters, p.clumsy, p.hurried = rng.IntN(14) == 0, rng.IntN(9) == 0, rng.IntN(8) == 0
		all = append(all, p)
	}
	return all
}

// randomIP returns an address of the networks that are reserved for documentation (RFC 5737).
func randomIP(rng *rand.Rand) netip.Addr {
	nets := [][3]byte{{198, 51, 100}, {203, 0, 113}}
	n := nets[rng.IntN(len(nets))]
	return netip.AddrFrom4([4]byte{n[0], n[1], n[2], byte(1 + rng.IntN(254))})
}
