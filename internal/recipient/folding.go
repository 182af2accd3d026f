package recipient

import (
	"slices"
	"strings"
)

// Fold says what a mail system ignores in local parts.
type Fold struct {
	PlusTags bool // "ana+shop" is "ana"
	Dots     bool // "an.a" is "ana"
}

// Folding is, by domain in lower-case A-labels, which spellings are one mailbox (MAIL-8). It only merges what is counted
// and searched: mail goes to the address as typed, and who proved one spelling has not proven another. The zero value
// folds nothing.
type Folding map[string]Fold

// Hash is the hash of the recipient's mailbox: that of its simplest spelling, so what was counted for that one stays
// counted, whatever is folded.
func (f Folding) Hash(r Recipient, key []byte) Hash {
	p := r.parts()
	p.folded = f.fold(p.folded, r.Domain())
	return p.hash(key)
}

// Mailbox is the hash of the mailbox that a mail address leads to as far as anybody can tell from outside: beside what Hash
// folds, tags are left out at every domain, and Google's two domains and their dots are one. It may take two mailboxes for
// one, so it is for wide bounds alone. A phone number is as in Hash.
func (f Folding) Mailbox(r Recipient, key []byte) Hash {
	p := r.parts()
	domain := r.Domain()
	if domain == "" {
		return p.hash(key)
	}
	p.folded = f.fold(p.folded, domain)
	p.folded = Folding{domain: {PlusTags: true, Dots: slices.Contains(google, domain)}}.fold(p.folded, domain)
	if slices.Contains(google, domain) {
		p.folded = strings.TrimSuffix(p.folded, domain) + google[0]
	}
	return p.hash(key)
}

// google are the domains of Google's mail for everybody. At both, a local part is the same account, with dots or without.
var google = []string{"gmail.com", "googlemail.com"}

func (f Folding) fold(address, domain string) string {
	rules, ok := f[domain]
	if !ok || domain == "" {
		return address
	}
	local := strings.TrimSuffix(address, "@"+domain)
	if tagless, _, _ := strings.Cut(local, "+"); rules.PlusTags && tagless != "" {
		local = tagless
	}
	if rules.Dots {
		local = strings.ReplaceAll(local, ".", "")
	}
	return local + "@" + domain
}
