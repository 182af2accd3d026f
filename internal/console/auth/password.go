package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
)

// credential is what a login rests on: a password, or a provider's word, which no typed text matches. The zero credential admits no login.
type credential struct {
	match    func(typed string) bool
	identity [sha256.Size]byte // differs for each, and tells nothing of a password; sessions end when it changes
}

// parsePassword returns the credential of a plain text or of a hash in PHC format, which takes precedence; the zero credential if both
// are empty. The error contains nothing of the hash.
func parsePassword(plain, hash string) (credential, error) {
	switch {
	case hash != "":
		h, err := parsePHC(hash)
		if err != nil {
			return credential{}, err
		}
		return credential{h.matches, sha256.Sum256([]byte("argon2id\x00" + hash))}, nil
	case plain != "":
		identity := identityOf(plain)
		match := func(typed string) bool { // of equal lengths, so that the time tells nothing of either
			other := identityOf(typed)
			return subtle.ConstantTimeCompare(other[:], identity[:]) == 1
		}
		return credential{match, identity}, nil
	}
	return credential{}, nil
}

// identityOf returns the identity of a password that is not hashed.
func identityOf(plain string) [sha256.Size]byte { return sha256.Sum256([]byte("plain\x00" + plain)) }

// hashPassword returns the argon2id hash of a password, in PHC format.
func hashPassword(plain string) string {
	h := unmatchable
	h.salt = make([]byte, len(unmatchable.salt))
	rand.Read(h.salt) // never fails: the program stops when the system has no randomness
	h.hash = h.of(plain)
	return h.String()
}

// newPassword returns a random password of 120 bits that can be typed.
func newPassword() string { return rand.Text()[:24] }

// unmatchable takes the time of a new hash and is no password. One check takes some 20 ms: a recommendation of OWASP's password storage
// cheat sheet.
var unmatchable = phc{memory: 19 * 1024, time: 2, threads: 1, salt: make([]byte, 16), hash: make([]byte, 32)}

// isSet reports whether a login may rest on the credential.
func (c credential) isSet() bool { return c.identity != [sha256.Size]byte{} }

// matches compares in a time that does not depend on the typed password. Without a password it also computes a hash, so that a login to
// an unknown account takes as long as one to a known account.
func (c credential) matches(typed string) bool {
	if c.match == nil {
		unmatchable.matches(typed)
		return false
	}
	return c.match(typed)
}
