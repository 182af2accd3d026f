package recipient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

// Hash identifies a recipient without revealing it: 128 bits of a keyed hash, for the quota and the
// database.
type Hash [16]byte

// hashLabel separates these hashes from other uses of the key. It has a version, so that the
// folding can change.
const hashLabel = "sendcode recipient 1"

// Hash returns HMAC-SHA-256, cut to 128 bits, of the channel and the folded address. The folded
// address has the domain as A-labels, and the local part in lower case and NFC. So "a@X.de" and
// "A@x.DE" have the same hash. Hash panics if the key is empty, since addresses could then be
// guessed.
func (r Recipient) Hash(key []byte) Hash {
	return r.data().hash(key)
}

func (r recipientData) hash(key []byte) Hash {
	if len(key) == 0 {
		panic("recipient: Hash without a key")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(hashLabel + "\x00" + string(r.channel) + "\x00" + r.folded))
	return Hash(mac.Sum(nil)[:len(Hash{})])
}

// String returns the hash as 32 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// tagEncoding is Crockford's, without letters that are read as digits.
var tagEncoding = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// Tag returns the hash's first 20 bits as four characters, so that a person can distinguish two
// recipients with equal masks; "" for the zero hash. Equal tags prove nothing.
func (h Hash) Tag() string {
	if h.IsZero() {
		return ""
	}
	return tagEncoding.EncodeToString(h[:3])[:4]
}

// StringOrEmpty returns String, or "" for the zero hash.
func (h Hash) StringOrEmpty() string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// IsZero reports whether h is the zero hash, of no recipient.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText returns String, so that JSON has a string.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ParseHash parses the form of String. Error: the text has another form.
func ParseHash(s string) (Hash, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Hash{}) || Hash(b).String() != s {
		return Hash{}, errors.New("a recipient hash is 32 lower-case hexadecimal digits")
	}
	return Hash(b), nil
}

// FoldRules are the differences between local parts that a mail system ignores.
type FoldRules struct {
	PlusTags bool // "ana+shop" is "ana"
	Dots     bool // "an.a" is "ana"
}

// Folding says, for each domain in lower-case A-labels, which spellings are one mailbox. It merges
// spellings only for counting and searching: mail goes to the address as typed, and a proof of one
// spelling does not prove another. The zero value folds nothing.
type Folding map[string]FoldRules

// Hashes are the three hashes of a recipient. For most phone numbers they are equal.
type Hashes struct {
	Address Hash // of the address as spelled, ignoring case: Recipient.Hash
	// Counted is the hash of the folded spelling; events are counted by it. For the simplest
	// spelling Counted equals Address, so the counts of that spelling stay when the folding
	// changes. A number of Argentina is counted in its form with the 9 of a mobile.
	Counted Hash
	// Mailbox is the same hash for spellings that are probably one mailbox. In addition to the
	// folding, it drops tags at all domains, treats Google's two domains as one, and drops dots
	// there. Two mailboxes may share this hash, so use it only for wide bounds.
	Mailbox Hash
}

// Hashes returns all three hashes. Most recipients have three equal hashes, which are computed only
// once.
func (f Folding) Hashes(r Recipient, key []byte) Hashes {
	p, domain := r.data(), r.Domain()
	h := p.hash(key)
	hash := func(folded string) Hash {
		if folded == p.folded {
			return h
		}
		return recipientData{channel: p.channel, folded: folded}.hash(key)
	}
	if domain == "" {
		counted := hash(p.counted)
		return Hashes{h, counted, counted}
	}
	counted := f[domain].foldAddress(p.folded, domain)
	isGoogle := slices.Contains(googleDomains, domain)
	mailbox := FoldRules{PlusTags: true, Dots: isGoogle}.foldAddress(counted, domain)
	if isGoogle {
		mailbox = strings.TrimSuffix(mailbox, domain) + googleDomains[0]
	}
	return Hashes{h, hash(counted), hash(mailbox)}
}

// googleDomains are the domains of Gmail. A local part names the same account on both, with or
// without dots.
var googleDomains = []string{"gmail.com", "googlemail.com"}

// foldAddress drops the tag and the dots of the address's local part if the rules ignore them. So
// all addresses of one mailbox become equal.
func (rules FoldRules) foldAddress(address, domain string) string {
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
