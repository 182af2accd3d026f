package verification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Numbers are the phone numbers that are sent to. The zero value is none.
type Numbers struct {
	Countries  map[string]bool // by Recipient.Country; nil with Everywhere
	Everywhere bool            // whatever the country: nothing leaves this machine
	RefuseVoIP bool            // not those that the numbering plan gives to internet telephony
}

// refuse says why a number is not sent to; nil for one that is, and for mail. The person is told: whether a country is served
// is no secret, and another number may do.
func (n Numbers) refuse(r recipient.Recipient) error {
	switch {
	case r.Channel() != recipient.SMS:
		return nil
	case !n.Everywhere && !n.Countries[r.Country()]:
		return invalid("to", CountryNotServed, "Codes are not sent to phone numbers of this country.")
	case n.RefuseVoIP && r.VoIP():
		return invalid("to", VoIP, "Codes are not sent to numbers of internet telephony; use a mobile number.")
	}
	return nil
}

// Offer is a channel that codes can be asked for on.
type Offer struct {
	Channel   recipient.Channel
	Paused    bool     // nothing is sent over it for now
	Countries []string // of phone numbers, as ISO 3166-1 alpha-2, sorted; "001" among them where it is let in
}

// Offers are the channels of a purpose as they are now: mail, and text messages where there is a carrier.
func (s *Service) Offers(purpose string) []Offer {
	purpose = or(purpose, "default")
	_, paused := s.Paused(recipient.Email, purpose)
	offers := []Offer{{Channel: recipient.Email, Paused: paused}}
	if s.Carrier != nil {
		_, paused = s.Paused(recipient.SMS, purpose)
		offers = append(offers, Offer{Channel: recipient.SMS, Paused: paused, Countries: s.Terms().Numbers.served()})
	}
	return offers
}

func (n Numbers) served() (countries []string) {
	if n.Everywhere {
		return recipient.Countries()
	}
	for country, ok := range n.Countries {
		if ok {
			countries = append(countries, country)
		}
	}
	slices.Sort(countries)
	return countries
}

// on is the purpose as it is for a channel: mails belong to no country, so rules on countries and prefixes pass them by, and phone
// numbers have one spelling.
func (p Purpose) on(ch recipient.Channel) Purpose {
	others := byArea
	if ch == recipient.SMS {
		others = func(r quota.Rule) bool { return r.Scope == Spellings }
	}
	p.Policy.Rules = slices.DeleteFunc(slices.Clone(p.Policy.Rules), others)
	return p
}

func byArea(r quota.Rule) bool {
	return r.Scope.Base() == quota.Country || r.Scope.Base() == quota.Prefix
}

// area is where a recipient belongs, as buckets name it: a number to its country and prefix, an address to its mailbox. The zero
// area is not known, and leaves such rules out of a look.
type area struct {
	country, prefix string
	mailbox         recipient.Hash
}

// area hides the prefix, which is most of a number, from whoever reads the limiter's keys.
func (s *Service) area(r recipient.Recipient) area {
	if r.Channel() != recipient.SMS {
		return area{mailbox: s.Folding.Mailbox(r, s.IndexKey)}
	}
	mac := hmac.New(sha256.New, s.IndexKey)
	mac.Write([]byte("sendcode prefix v1\x00" + r.Prefix()))
	return area{country: r.Country(), prefix: hex.EncodeToString(mac.Sum(nil)[:16])}
}

// areaOf is that of a recipient whom only its row knows, where a rule asks for it.
func (s *Service) areaOf(p Purpose, sealed func() (recipient.Recipient, error)) area {
	if !slices.ContainsFunc(p.Policy.Rules, func(r quota.Rule) bool { return byArea(r) || r.Scope == Spellings }) {
		return area{}
	}
	r, err := sealed()
	if err != nil {
		return area{}
	}
	return s.area(r)
}
