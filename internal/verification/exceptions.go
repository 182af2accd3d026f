package verification

import (
	"errors"
	"strings"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// TestRecipient has a code that is known, and nothing is sent to it: a reviewer of an app shop, an automated test. Quota,
// tries and log apply to it as to everybody.
type TestRecipient struct {
	Code    string
	Expires time.Time // from then on it is a recipient like any other
}

// testProvider stands in the log for the mail server that was not asked.
const testProvider = "test"

// testRecipient says whether v is a test recipient's now. Another spelling of its mailbox is not: whoever knows the code
// could prove that one, too.
func (s *Service) testRecipient(v store.Verification) (TestRecipient, bool) {
	t, ok := s.Terms().TestRecipients[v.Recipient]
	if !ok || !s.Now().Before(t.Expires) {
		return t, false
	}
	spelling, err := s.spelling(v)
	return t, err == nil && spelling == v.Recipient
}

// Blocks are recipients that get no codes.
type Blocks struct {
	Recipients map[recipient.Hash]bool // of the very address, in whatever case
	Domains    map[string]bool         // of mail addresses, with their subdomains; lower-case A-labels
	Prefixes   []string                // of phone numbers, with their "+"
	Disposable map[string]bool         // domains whose addresses live for a short while, with their subdomains
}

// errBlocked ends a send to a recipient that is blocked.
var errBlocked = errors.New("verification: the recipient is blocked")

// blocked: who is named in the list. What is asked for them is recorded, and fails (never silently, never with a word to
// browsers); it keeps its place in the quota, or asking would be free.
func (b Blocks) blocked(r recipient.Recipient, h recipient.Hash) bool {
	if b.Recipients[h] || within(r.Domain(), b.Domains) {
		return true
	}
	for _, prefix := range b.Prefixes {
		if r.Channel() == recipient.SMS && strings.HasPrefix(r.Address(), prefix) {
			return true
		}
	}
	return false
}

// disposable: at a domain where anybody gets an address for a while. The person is told, for they can use another one.
func (b Blocks) disposable(r recipient.Recipient) bool { return within(r.Domain(), b.Disposable) }

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

// rightCode is what a person has to enter for v.
func (s *Service) rightCode(v store.Verification) (string, error) {
	if t, ok := s.testRecipient(v); ok {
		return t.Code, nil
	}
	return s.code(v)
}
