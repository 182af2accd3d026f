package verification

import (
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
		return invalid("to", "country_not_served", "Codes are not sent to phone numbers of this country.")
	case n.RefuseVoIP && r.VoIP():
		return invalid("to", "voip", "Codes are not sent to numbers of internet telephony; use a mobile number.")
	}
	return nil
}

// on is the purpose as it is for a channel: mails have no country, so rules on countries pass them by.
func (p Purpose) on(ch recipient.Channel) Purpose {
	if ch != recipient.SMS {
		p.Policy.Rules = slices.DeleteFunc(slices.Clone(p.Policy.Rules), func(r quota.Rule) bool { return r.Scope == quota.Country })
	}
	return p
}

// country is the Country of a recipient that only its row knows, where a rule asks for it; "" leaves such rules out.
func (s *Service) country(p Purpose, sealed func() (recipient.Recipient, error)) string {
	if len(quota.OfScope(p.Policy.Rules, quota.Country)) == 0 {
		return ""
	}
	r, err := sealed()
	if err != nil {
		return ""
	}
	return r.Country()
}
