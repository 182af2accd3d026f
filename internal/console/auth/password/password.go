// Package password checks passwords of the console: plain ones out of the configuration, and argon2id hashes (RFC 9106).
package password

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
)

// Password is one that a login is compared with. The zero Password matches nothing.
type Password struct {
	matches  func(typed string) bool
	identity [sha256.Size]byte
}

// Parse returns the Password of a plain text or of a hash in PHC format, which takes precedence; the zero Password if both are
// empty. The error contains nothing of the hash.
func Parse(plain, hash string) (Password, error) {
	switch {
	case hash != "":
		h, err := parsePHC(hash)
		if err != nil {
			return Password{}, err
		}
		return Password{h.matches, sha256.Sum256([]byte("argon2id\x00" + hash))}, nil
	case plain != "":
		identity := identityOf(plain)
		matches := func(typed string) bool { // of equal lengths, so that the time tells nothing of either
			other := identityOf(typed)
			return subtle.ConstantTimeCompare(other[:], identity[:]) == 1
		}
		return Password{matches, identity}, nil
	}
	return Password{}, nil
}

// identityOf returns the identity of a password that is not hashed.
func identityOf(plain string) [sha256.Size]byte { return sha256.Sum256([]byte("plain\x00" + plain)) }

// Hash returns the argon2id hash of a password, in PHC format.
func Hash(plain string) string {
	h := unmatchable
	h.salt = make([]byte, len(unmatchable.salt))
	rand.Read(h.salt) // never fails: the program stops when the system has no randomness
	h.hash = h.of(plain)
	return h.String()
}

// New returns a random password of 120 bits that can be typed.
func New() string { return rand.Text()[:24] }

// unmatchable takes the time of a new hash and is no password. One check takes some 20 ms: a recommendation of OWASP's password storage
// cheat sheet.
var unmatchable = phc{memory: 19 * 1024, time: 2, threads: 1, salt: make([]byte, 16), hash: make([]byte, 32)}

// IsSet says whether anything matches.
func (p Password) IsSet() bool { return p.matches != nil }

// Identity returns a value that differs for each password; sessions end when it changes. The password can't be found from it.
func (p Password) Identity() [sha256.Size]byte { return p.identity }

// Matches compares in a time that does not depend on the typed password. The zero Password also computes a hash, so that a login to
// an unknown account takes as long as one to a known account.
func (p Password) Matches(typed string) bool {
	if p.matches == nil {
		unmatchable.matches(typed)
		return false
	}
	return p.matches(typed)
}
