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

// Folding says for each domain, in lower-case A-labels, which spellings are one mailbox. It merges spellings only for counting and
// searching: mail goes to the address as typed, and a proof of one spelling does not prove another. The zero value folds nothing.
type Folding map[string]Fold

// Hash returns the hash of the recipient's folded spelling. The simplest spelling has the same hash with and without folding, so its
// counts stay when the folding changes.
func (f Folding) Hash(r Recipient, key []byte) Hash {
	return parts{channel: r.Channel(), folded: f.counted(r)}.hash(key)
}

func (f Folding) counted(r Recipient) string { return f.fold(r.parts().folded, r.Domain()) }

// Mailbox returns a hash that spellings of the same mailbox share, as far as can be guessed: in addition to Hash, it drops tags at all
// domains, and treats Google's two domains, and dots there, as equal. It may give two mailboxes one hash, so use it only for wide
// bounds. For a phone number it is Hash.
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

// Hashes are the three hashes by which a recipient is counted.
type Hashes struct {
	Address Hash // of the very address, in whatever case
	Counted Hash // Folding.Hash
	Mailbox Hash // Folding.Mailbox
}

// Hashes returns all three hashes. For most recipients they are equal, and are computed only once.
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

// google are the domains of Gmail. On both, a local part is the same account, with or without dots.
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
