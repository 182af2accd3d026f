package recipient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Hash names a recipient without telling who it is: 128 bits of a keyed hash, for the quota and the log.
type Hash [16]byte

// hashLabel keeps this use of the key apart from any other and lets the folding change one day.
const hashLabel = "sendcode recipient 1"

// Hash is HMAC-SHA-256, cut to 128 bits, over channel and folded address (MAIL-8): the domain as A-labels, the
// local part in lower case and NFC, so "a@X.de" and "A@x.DE" count as one. The key must not be empty:
// without one anybody could find addresses by trying, so Hash panics.
func (r Recipient) Hash(key []byte) Hash {
	return r.parts().hash(key)
}

func (p parts) hash(key []byte) Hash {
	if len(key) == 0 {
		panic("recipient: Hash without a key")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(hashLabel + "\x00" + string(p.channel) + "\x00" + p.folded))
	return Hash(mac.Sum(nil)[:len(Hash{})])
}

// String is the hash as 32 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Known is String, and empty for the zero hash.
func (h Hash) Known() string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// IsZero says that it is the zero hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText gives the same as String, so that JSON shows it as a string.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ParseHash reads what String wrote, and nothing else.
func ParseHash(s string) (Hash, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Hash{}) || Hash(b).String() != s {
		return Hash{}, errors.New("a recipient hash is 32 lower-case hexadecimal digits")
	}
	return Hash(b), nil
}
