package recipient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Hash identifies a recipient without revealing it: 128 bits of a keyed hash, for the quota and the log.
type Hash [16]byte

// hashLabel separates this use of the key from others. Its version allows the folding to change.
const hashLabel = "sendcode recipient 1"

// Hash returns HMAC-SHA-256, cut to 128 bits, of the channel and the folded address: the domain as A-labels, the local part in lower
// case and NFC, so "a@X.de" and "A@x.DE" have the same hash. It panics if the key is empty, since addresses could then be guessed.
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

// String returns the hash as 32 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Known returns String, or "" for the zero hash.
func (h Hash) Known() string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// IsZero reports whether it is the zero hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText gives the same as String, so that JSON shows it as a string.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ParseHash parses the form of String, and nothing else.
func ParseHash(s string) (Hash, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Hash{}) || Hash(b).String() != s {
		return Hash{}, errors.New("a recipient hash is 32 lower-case hexadecimal digits")
	}
	return Hash(b), nil
}
