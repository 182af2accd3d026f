package recipient

import "strings"

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
