package recipient

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"strings"
)

// Hash identifies a recipient without revealing the address. The limiter and the database count and
// find a recipient by this hash. A Hash is 128 bits of a keyed hash.
type Hash [16]byte

// hashLabel makes these hashes differ from other values that are computed with the same key. The
// label ends with a version number, so that a later release can change how addresses are folded.
const hashLabel = "sendcode recipient 1"

// Hash returns an HMAC-SHA-256 of the channel and the folded address, cut to 128 bits. The folded
// address has the local part in lower case and NFC, and the domain as A-labels. So "a@X.de" and
// "A@x.DE" have the same hash. Hash panics if the key is empty, because without a key anyone could
// find the address of a hash by guessing.
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

// Tag returns the first 20 bits of the hash as four characters. With the tag, a person can
// distinguish two recipients that look equal when masked. Two recipients with equal tags may still
// be different. For the zero hash, Tag returns "".
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

// FoldRules are the differences between addresses that a mail system ignores.
type FoldRules struct {
	PlusTags bool   // "ana+shop" is "ana"
	Dots     bool   // "an.a" is "ana"
	Domain   string // another domain of the same mailboxes, under which they are counted; empty: none
}

// Folding has the rules that say which spellings of an address are one mailbox. The key is a domain
// in lower-case A-labels, or empty for all domains that are not listed. Folding merges spellings
// only for counting and searching. Mail goes to the address as typed, and a proof for one spelling
// is not valid for another. The zero value merges no spellings.
type Folding map[string]FoldRules

// DefaultFolding returns the rules of a service without settings. A tag after a plus is ignored at
// all domains (RFC 5233). So it is by the large providers and by most mail servers, and if a domain
// gives such addresses to different persons, they only share a quota. Gmail also ignores dots, and
// a local part means the same account at both of its domains
// (https://support.google.com/mail/answer/7436150, https://support.google.com/mail/answer/10313).
func DefaultFolding() Folding {
	return Folding{
		"":               {PlusTags: true},
		"gmail.com":      {PlusTags: true, Dots: true},
		"googlemail.com": {PlusTags: true, Dots: true, Domain: "gmail.com"},
	}
}

// Hashes has the two hashes of a recipient. For most recipients, both are equal.
type Hashes struct {
	Address Hash // of the address as spelled, ignoring case: Recipient.Hash
	// Counted is the hash of the folded spelling. The limiter counts events by this hash. For a
	// mail address that folding leaves unchanged, such as one without a tag and without dots,
	// Counted equals Address. So a change of the folding keeps the counts of this spelling. A phone
	// number of Argentina is counted in the form with the 9 of mobile numbers.
	Counted Hash
}

// Hashes returns both hashes. For most recipients they are equal, and Hashes computes one hash
// only.
func (f Folding) Hashes(r Recipient, key []byte) Hashes {
	p, domain := r.data(), r.Domain()
	h, counted := p.hash(key), p.counted
	if domain != "" {
		counted = f.rulesOf(domain).foldAddress(p.folded, domain)
	}
	if counted == p.folded {
		return Hashes{h, h}
	}
	return Hashes{h, recipientData{channel: p.channel, folded: counted}.hash(key)}
}

func (f Folding) rulesOf(domain string) FoldRules {
	if rules, listed := f[domain]; listed {
		return rules
	}
	return f[""]
}

// foldAddress removes the tag and the dots from the local part of an address, if the rules ignore
// tags or dots, and replaces its domain, if the rules have another one. After this, all addresses
// of one mailbox are equal.
func (rules FoldRules) foldAddress(address, domain string) string {
	local := strings.TrimSuffix(address, "@"+domain)
	if tagless, _, _ := strings.Cut(local, "+"); rules.PlusTags && tagless != "" {
		local = tagless
	}
	if rules.Dots {
		local = strings.ReplaceAll(local, ".", "")
	}
	if rules.Domain == "" && len(local)+1+len(domain) == len(address) {
		return address
	}
	return local + "@" + cmp.Or(rules.Domain, domain)
}
