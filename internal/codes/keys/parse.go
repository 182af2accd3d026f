package keys

import (
	"cmp"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// minKeyLength, in bytes, is the output size of the hash function that the key is for (RFC 2104
// section 3).
const minKeyLength = 32

const maxIDLength = 16

// Parse parses "id:base64,id:base64": IDs of 1 to 16 characters a-z A-Z 0-9 _ and -, and keys of at
// least 32 random bytes in either base64 alphabet, padded or not. The error lists all problems by
// the position of the entry, and shows no part of the value, because even an ID may be a key in the
// wrong place.
func Parse(value string) (*Ring, error) {
	if strings.TrimSpace(value) == "" {
		return nil, errors.New("no key: give id:base64, for example k1: and the output of `openssl rand -base64 32`")
	}
	var keys []ringKey
	var errs []error
	seen := map[string]int{} // the entry's number, by ID and by secret; a new ID for the same secret would be no rotation
	for i, text := range strings.Split(value, ",") {
		e, err := parseEntry(strings.TrimSpace(text))
		if err == nil {
			err = cmp.Or(checkDuplicate(seen, "id", e.id, i+1), checkDuplicate(seen, "key", string(e.secret), i+1))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %d: %w", i+1, err))
			continue
		}
		prk, err := hkdf.Extract(sha256.New, e.secret, nil)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		keys = append(keys, ringKey{id: e.id, prk: prk})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	all := &ringContent{keys: keys}
	return &Ring{func() *ringContent { return all }}, nil
}

type ringEntry struct {
	id     string
	secret []byte
}

func parseEntry(text string) (ringEntry, error) {
	id, encoded, found := strings.Cut(text, ":")
	switch {
	case text == "":
		return ringEntry{}, errors.New("empty")
	case !found:
		return ringEntry{}, errors.New("no colon: write id:base64")
	case !validID(id):
		return ringEntry{}, errors.New("the id must be 1 to 16 letters, digits, _ or -")
	case encoded == "":
		return ringEntry{}, errors.New("there is no key after the colon")
	}
	secret, err := DecodeKey(encoded)
	if err == nil {
		err = checkStrength(encoded, secret)
	}
	return ringEntry{id, secret}, err
}

func validID(id string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return id != "" && len(id) <= maxIDLength && strings.Trim(id, allowed) == ""
}

func DecodeKey(encoded string) ([]byte, error) {
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(encoded, "="))
	// The decoder ignores line breaks, but here a line break shows that the value is damaged.
	secret, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, errors.New("the key is not base64") // the decoder's own error quotes a byte
	}
	return secret, nil
}

// checkDuplicate remembers the value of entry number at, and fails if an earlier entry has the same
// value.
func checkDuplicate(seen map[string]int, what, value string, at int) error {
	if first := seen[what+value]; first != 0 {
		return fmt.Errorf("has the same %s as entry %d", what, first)
	}
	seen[what+value] = at
	return nil
}

func GenerateEntry() string {
	for {
		random := make([]byte, 4+minKeyLength)
		rand.Read(random) // never fails: the program stops when the system has no randomness
		text := "k" + hex.EncodeToString(random[:4]) + ":" + base64.StdEncoding.EncodeToString(random[4:])
		if _, err := Parse(text); err == nil { // about one key in ten million spells a word that Parse refuses
			return text
		}
	}
}
