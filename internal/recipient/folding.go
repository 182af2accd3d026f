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
	return parts{channel: r.Channel(), folded: f.counted(r)}.hash(key)
}

func (f Folding) counted(r Recipient) string { return f.fold(r.parts().folded, r.Domain()) }

// Mailbox is the hash of the mailbox that a mail address leads to as far as anybody can tell from outside: beside what Hash
// folds, tags are left out at every domain, and Google's two domains and their dots are one. It may take two mailboxes for
// one, so it is for wide bounds alone. A phone number is as in Hash.
func (f Folding) Mailbox(r Recipient, key []byte) Hash {
	return parts{channel: r.Channel(), folded: f.mailbox(r)}.hash(key)
}

func (f Folding) mailbox(r Recipient) string {
	domain := r.Domain()
	if domain == "" {
		return r.parts().folded
	}
	folded := Fold{PlusTags: true, Dots: slices.Contains(google, domain)}.fold(f.counted(r), domain)
	if slices.Contains(google, domain) {
		folded = strings.TrimSuffix(folded, domain) + google[0]
	}
	return folded
}

// Hashes name a recipient in the three ways in which it is counted.
type Hashes struct {
	Address Hash // of the very address, in whatever case
	Counted Hash // Folding.Hash
	Mailbox Hash // Folding.Mailbox
}

// Hashes are all that a request needs. Most recipients have one spelling and one hash, which is computed once.
func (f Folding) Hashes(r Recipient, key []byte) Hashes {
	p := r.parts()
	h := Hashes{Address: p.hash(key)}
	hash := func(folded string) Hash {
		if folded == p.folded {
			return h.Address
		}
		return parts{channel: p.channel, folded: folded}.hash(key)
	}
	h.Counted, h.Mailbox = hash(f.counted(r)), hash(f.mailbox(r))
	return h
}

// google are the domains of Google's mail for everybody. At both, a local part is the same account, with dots or without.
var google = []string{"gmail.com", "googlemail.com"}

func (f Folding) fold(address, domain string) string {
	rules, ok := f[domain]
	if !ok || domain == "" {
		return address
	}
	return rules.fold(address, domain)
}

func (rules Fold) fold(address, domain string) string {
	local := strings.TrimSuffix(address, "@"+domain)
	if tagless, _, _ := strings.Cut(local, "+"); rules.PlusTags && tagless != "" {
		local = tagless
	}
	if rules.Dots {
		local = strings.ReplaceAll(local, ".", "")
	}
	if len(local)+1+len(domain) == len(address) {
		return address
	}
	return local + "@" + domain
}
