package policy

import (
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// BlockLists are recipients that get no codes.
type BlockLists struct {
	Recipients map[recipient.Hash]bool // key: keys.Vault.SuppressionHash of the recipient
	Domains    map[string]bool         // blocked domains of mail addresses, with their subdomains; lower-case A-labels
	Prefixes   []string                // blocked prefixes of phone numbers, as recipient.NormalizePhonePrefix returns them
	Disposable map[string]bool         // domains of throw-away addresses, with their subdomains
}

// IsBlocked reports whether the recipient r is blocked. The parameter address must be the hash that
// keys.Vault.SuppressionHash returns for r. IsBlocked ignores the list Disposable.
//
// The service stores a send to a blocked recipient as failed. Browsers do not see the reason. The
// send is not refunded, so requests for blocked recipients use up quota.
func (b BlockLists) IsBlocked(r recipient.Recipient, address recipient.Hash) bool {
	if b.Recipients[address] || domainListed(r.Domain(), b.Domains) {
		return true
	}
	return r.Channel() == recipient.SMS && slices.ContainsFunc(b.Prefixes, func(prefix string) bool {
		return strings.HasPrefix(recipient.NormalizePhonePrefix(r.Address()), prefix)
	})
}

// domainListed reports whether the domain or one of its parent domains is listed.
func domainListed(domain string, listed map[string]bool) bool {
	for domain != "" {
		if listed[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}

// ServedNumbers says which phone numbers may receive codes. The zero value allows no phone numbers.
type ServedNumbers struct {
	Countries  []string // by Recipient.Country, sorted; nil with Everywhere
	Everywhere bool     // all countries; for carriers that send nothing, as in development
	RefuseVoIP bool     // refuse numbers that the numbering plan assigns to internet telephony
}

// Validate returns the reason why no code is sent to a phone number. It returns nil if codes are
// sent to the number. It also returns nil for a mail address.
func (n ServedNumbers) Validate(r recipient.Recipient) *recipient.InvalidError {
	switch {
	case r.Channel() != recipient.SMS:
		return nil
	case !n.Everywhere && !slices.Contains(n.Countries, r.Country()):
		return &recipient.InvalidError{
			Reason: ReasonCountryNotServed,
			Detail: "Codes are not sent to phone numbers of this country.",
		}
	case n.RefuseVoIP && r.VoIP():
		return &recipient.InvalidError{
			Reason: ReasonVoIP,
			Detail: "Codes are not sent to numbers of internet telephony; use a mobile number.",
		}
	}
	return nil
}

// ServedCountries returns the served countries, as ISO 3166-1 alpha-2, sorted; "001" stands for
// international numbers.
func (n ServedNumbers) ServedCountries() []string {
	if n.Everywhere {
		return recipient.Countries()
	}
	return n.Countries
}

// The reasons why no code is sent to a recipient. The service refuses a request for such a
// recipient before any rule is evaluated.
const (
	ReasonCountryNotServed = "country_not_served"
	ReasonVoIP             = "voip"
	ReasonDisposable       = "disposable"
)

// IsUnservedRefusal reports whether a row is a refusal for one of the above reasons. A rule may
// have the same name as a reason. But a refusal by a rule always has a RetryAfter, and a refusal
// for such a reason has none.
func IsUnservedRefusal(row store.SendOrRefusal) bool {
	switch row.BlockedBy {
	case ReasonCountryNotServed, ReasonVoIP, ReasonDisposable:
		return row.RetryAfter == 0
	}
	return false
}

// ValidateRecipient returns the reason why the service refuses requests for a recipient before any
// rule is evaluated. The reason is the country, a VoIP number, or a disposable domain. The response
// contains the reason. If there is no reason, ValidateRecipient returns nil. It does not check the
// other lists of BlockLists.
func (s Set) ValidateRecipient(r recipient.Recipient) *recipient.InvalidError {
	if refusal := s.Numbers.Validate(r); refusal != nil {
		return refusal
	}
	if domainListed(r.Domain(), s.Blocks.Disposable) {
		return &recipient.InvalidError{
			Reason: ReasonDisposable,
			Detail: "Addresses at this domain live for a short while only; use another one.",
		}
	}
	return nil
}

// Pause stops the sends of a channel, of a purpose, or of a purpose on a channel. An empty Channel
// means all channels, and an empty Purpose means all purposes.
type Pause struct {
	Channel recipient.Channel
	Purpose string
	Reason  string    // an operator's words, for administrators
	Since   time.Time // when this process first had the pause in its configuration; CurrentSet sets it
}

// Paused returns the first pause that stops sends of the channel and purpose; false if none does.
func (s Set) Paused(ch recipient.Channel, purpose string) (Pause, bool) {
	for _, p := range s.Pauses {
		if (p.Channel == "" || p.Channel == ch) && (p.Purpose == "" || p.Purpose == purpose) {
			return p, true
		}
	}
	return Pause{}, false
}

// withPauseStarts returns the new pauses (the parameter after) with Since set. A pause that is also
// among the old pauses (the parameter before) keeps its old Since. Every other pause gets the
// present time.
func withPauseStarts(before, after []Pause, now time.Time) []Pause {
	after = slices.Clone(after)
	for i := range after {
		after[i].Since = now
		for _, b := range before {
			if b.Channel == after[i].Channel && b.Purpose == after[i].Purpose && b.Reason == after[i].Reason {
				after[i].Since = b.Since
			}
		}
	}
	return after
}
