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

// Hash identifies a recipient, for the limiter and the database, without revealing the address: 128
// bits of a keyed hash.
type Hash [16]byte

// hashLabel sets these hashes apart from others with the same key. Its version lets a later release
// fold addresses differently.
const hashLabel = "sendcode recipient 1"

// Hash returns 128 bits of an HMAC-SHA-256 of the channel and the address, with the local part in
// lower case and NFC and the domain in A-labels: "a@X.de" and "A@x.DE" have the same. It panics
// without a key, because anyone could then find the address by guessing.
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

// String returns 32 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// tagEncoding is Crockford's base 32, which has no letters that look like digits.
var tagEncoding = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// Tag returns the first 20 bits as four characters. With them, a person can tell recipients apart
// whose masked forms are equal. Equal tags don't prove the same recipient. The zero hash has none.
func (h Hash) Tag() string {
	if h.IsZero() {
		return ""
	}
	return tagEncoding.EncodeToString(h[:3])[:4]
}

func (h Hash) StringOrEmpty() string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

func (h Hash) IsZero() bool { return h == Hash{} }

func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ParseHash parses the form of String.
func ParseHash(s string) (Hash, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Hash{}) || Hash(b).String() != s {
		return Hash{}, errors.New("a recipient hash is 32 lower-case hexadecimal digits")
	}
	return Hash(b), nil
}

// FoldRules are differences between addresses that a mail system ignores.
type FoldRules struct {
	PlusTags bool   // "ana+shop" is "ana"
	Dots     bool   // "an.a" is "ana"
	Domain   string // another domain of the same mailboxes, which is counted instead; empty: none
}

// Folding has the rules of each domain, in lower-case A-labels; "" has those of all others. It
// merges spellings for counting and searching only: mail goes to the address as typed, and a proof
// for one spelling isn't valid for another.
type Folding map[string]FoldRules

// DefaultFolding ignores a tag after a plus at all domains (RFC 5233), as the large providers and
// most mail servers do. Where such addresses belong to different persons, they only share a quota.
// Gmail also ignores dots, and its two domains have the same accounts
// (https://support.google.com/mail/answer/7436150, https://support.google.com/mail/answer/10313).
func DefaultFolding() Folding {
	return Folding{
		"":               {PlusTags: true},
		"gmail.com":      {PlusTags: true, Dots: true},
		"googlemail.com": {PlusTags: true, Dots: true, Domain: "gmail.com"},
	}
}

// Hashes are the two hashes of a recipient, which are mostly equal.
type Hashes struct {
	Address Hash // as spelled, ignoring case: Recipient.Hash
	// Counted is the hash of the folded spelling. Events are counted by this hash. If folding
	// changes nothing, Counted equals Address, so most counts survive a change of the folding
	// rules. A phone number of Argentina is counted with the 9 of mobile numbers.
	Counted Hash
}

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

// foldAddress makes all addresses of one mailbox equal.
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
