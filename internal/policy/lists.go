package policy

import (
	"slices"
	"strings"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/vault"
)

// TestRecipient has a known code, and nothing is sent to it: a reviewer of an app store, an automated test. Quota, attempts and
// log apply to it as to any other.
type TestRecipient struct {
	Code    string
	Expires time.Time // from then on it is a recipient like any other
}

// TestProvider stands in the log for the mail server of test recipients.
const TestProvider = "test"

// Blocks are recipients that get no codes.
type Blocks struct {
	Recipients map[recipient.Hash]bool // of the very address, in whatever case
	Domains    map[string]bool         // of mail addresses, with their subdomains; lower-case A-labels
	Prefixes   []string                // of phone numbers, with their "+"
	Disposable map[string]bool         // domains of throw-away addresses, with their subdomains
}

// Has reports whether a recipient is on the list. A send to it is recorded and fails, with no word about the list to browsers; it
// keeps its place in the quota, or asking would be free.
func (b Blocks) Has(r recipient.Recipient, address recipient.Hash) bool {
	if b.Recipients[address] || within(r.Domain(), b.Domains) {
		return true
	}
	for _, prefix := range b.Prefixes {
		if r.Channel() == recipient.SMS && strings.HasPrefix(r.Address(), prefix) {
			return true
		}
	}
	return false
}

// within says whether a domain, or one that it is a part of, is listed.
func within(domain string, listed map[string]bool) bool {
	for domain != "" {
		if listed[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}

// Numbers are the phone numbers that are sent to. The zero value is none.
type Numbers struct {
	Countries  map[string]bool // by Recipient.Country; nil with Everywhere
	Everywhere bool            // whatever the country: nothing leaves this machine
	RefuseVoIP bool            // not those that the numbering plan gives to internet telephony
}

// Refusal says why a recipient is not served. The caller learns it: another address or number may do.
type Refusal struct {
	Reason string // machine word
	Detail string // sentence
}

// Refuse says why a number is not sent to; nil for one that is, and for mail.
func (n Numbers) Refuse(r recipient.Recipient) *Refusal {
	switch {
	case r.Channel() != recipient.SMS:
		return nil
	case !n.Everywhere && !n.Countries[r.Country()]:
		return &Refusal{CountryNotServed, "Codes are not sent to phone numbers of this country."}
	case n.RefuseVoIP && r.VoIP():
		return &Refusal{VoIP, "Codes are not sent to numbers of internet telephony; use a mobile number."}
	}
	return nil
}

// Served lists the countries, as ISO 3166-1 alpha-2, sorted; "001" among them where it is let in.
func (n Numbers) Served() (countries []string) {
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

// Reasons for which a request is turned away before any rule is asked, since codes are not sent to its recipient.
const (
	CountryNotServed = "country_not_served"
	VoIP             = "voip"
	Disposable       = "disposable"
)

// Unserved reports whether a row was turned away for such a reason. A rule of the same name refuses with a wait.
func Unserved(row store.Send) bool {
	switch row.BlockedBy {
	case CountryNotServed, VoIP, Disposable:
		return row.RetryAfter == 0
	}
	return false
}

// Refuse says why requests for a recipient are turned away before anything is written; nil where they are not.
func (s Set) Refuse(r recipient.Recipient) *Refusal {
	if refusal := s.Numbers.Refuse(r); refusal != nil {
		return refusal
	}
	if within(r.Domain(), s.Blocks.Disposable) {
		return &Refusal{Disposable, "Addresses at this domain live for a short while only; use another one."}
	}
	return nil
}

// Pause stops sends of a channel, a purpose, or a purpose on a channel: whichever is named must match.
type Pause struct {
	Channel recipient.Channel
	Purpose string
	Reason  string    // an operator's words, for administrators
	Since   time.Time // when this process came to know of it; set by InForce
}

func (p Pause) matches(ch recipient.Channel, purpose string) bool {
	return (p.Channel == "" || p.Channel == ch) && (p.Purpose == "" || p.Purpose == purpose)
}

// Paused is the pause that holds for a channel and purpose, if there is one.
func (s Set) Paused(ch recipient.Channel, purpose string) (Pause, bool) {
	i := slices.IndexFunc(s.Pauses, func(p Pause) bool { return p.matches(ch, purpose) })
	if i < 0 {
		return Pause{}, false
	}
	return s.Pauses[i], true
}

// since gives each pause the instant from which it is known: what was there before keeps its own.
func since(before, after []Pause, now time.Time) []Pause {
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

// The events that an app can subscribe to. Each row is written by the log with the change itself, so none is lost and none is
// sent of what did not happen; package webhook delivers them.
const (
	EventSent     = "send.sent"
	EventFailed   = "send.failed"
	EventUnknown  = "send.unknown"
	EventApproved = "verification.approved"
)

// Events are all of them.
var Events = []string{EventSent, EventFailed, EventUnknown, EventApproved}

// Subscribes reports whether an app receives an event.
func (s Set) Subscribes(app, event string) bool {
	return slices.Contains(s.Subscriptions[app], event)
}

// TestRecipient is that of a verification, while it has not expired. Another spelling of its mailbox is none: a holder of the code
// could prove that one, too.
func (s Set) TestRecipient(k vault.Vault, v store.Verification, now time.Time) (TestRecipient, bool) {
	t, ok := s.TestRecipients[v.Recipient]
	if !ok || !now.Before(t.Expires) {
		return t, false
	}
	address, err := k.AddressOf(v)
	return t, err == nil && address == v.Recipient
}
