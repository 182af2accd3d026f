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
	Recipients map[recipient.Hash]bool // by keys.Vault.SuppressionHash
	Domains    map[string]bool         // with their subdomains; lower-case A-labels
	Prefixes   []string                // of phone numbers, as recipient.NormalizePhonePrefix returns them
	Disposable map[string]bool         // domains of throw-away addresses, with their subdomains
}

// IsBlocked reports whether codes to r, whose keys.Vault.SuppressionHash is address, are blocked.
// Disposable doesn't matter here.
//
// A send to a blocked recipient is stored as failed, for a reason that browsers don't see. It is
// not refunded, so requests for blocked recipients use up quota.
func (b BlockLists) IsBlocked(r recipient.Recipient, address recipient.Hash) bool {
	if b.Recipients[address] || domainListed(r.Domain(), b.Domains) {
		return true
	}
	return r.Channel() == recipient.SMS && slices.ContainsFunc(b.Prefixes, func(prefix string) bool {
		return strings.HasPrefix(recipient.NormalizePhonePrefix(r.Address()), prefix)
	})
}

func domainListed(domain string, listed map[string]bool) bool {
	for domain != "" {
		if listed[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}

// ServedNumbers are the phone numbers that may receive codes. The zero value has none.
type ServedNumbers struct {
	Countries  []string // by Recipient.Country, sorted; nil with Everywhere
	Everywhere bool     // for carriers that send nothing, as in development
	RefuseVoIP bool     // refuse numbers that the numbering plan assigns to internet telephony
}

// Validate returns why no code is sent to a phone number, or nil. Mail addresses pass.
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

// ServedCountries returns ISO 3166-1 alpha-2 codes, sorted; "001" stands for international numbers.
func (n ServedNumbers) ServedCountries() []string {
	if n.Everywhere {
		return recipient.Countries()
	}
	return n.Countries
}

// These are the reasons in the errors of Set.ValidateRecipient.
const (
	ReasonCountryNotServed = "country_not_served"
	ReasonVoIP             = "voip"
	ReasonDisposable       = "disposable"
)

// IsUnservedRefusal reports whether a row is a refusal for one of these reasons. A rule may have
// the same name as a reason, but a refusal by a rule has a RetryAfter.
func IsUnservedRefusal(row store.SendOrRefusal) bool {
	switch row.BlockedBy {
	case ReasonCountryNotServed, ReasonVoIP, ReasonDisposable:
		return row.RetryAfter == 0
	}
	return false
}

// ValidateRecipient returns why requests for a recipient are refused before any rule is evaluated
// (its country, VoIP, a disposable domain), or nil. The response contains the reason.
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
// or Purpose means all.
type Pause struct {
	Channel recipient.Channel
	Purpose string
	Reason  string    // for administrators
	Since   time.Time // when this process first had the pause; CurrentSet sets it
}

// Paused returns the first pause that stops sends of the channel and purpose.
func (s Set) Paused(ch recipient.Channel, purpose string) (Pause, bool) {
	for _, p := range s.Pauses {
		if (p.Channel == "" || p.Channel == ch) && (p.Purpose == "" || p.Purpose == purpose) {
			return p, true
		}
	}
	return Pause{}, false
}

// withPauseStarts returns the pauses in after with Since set. A pause that is also in before keeps
// its Since. Any other pause starts now.
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
