// Package password checks passwords of the console: plain ones out of the configuration, and argon2id hashes (RFC 9106).
package password

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/argon2"
)

// Password is one that a login is compared with. The zero Password matches nothing.
type Password struct {
	matches  func(typed string) bool
	identity [sha256.Size]byte
}

// Parse takes the password itself or its hash in the PHC string format; the hash wins. It is the zero Password where both are
// empty. The error repeats nothing of the hash.
func Parse(plain, hash string) (Password, error) {
	switch {
	case hash != "":
		h, err := parsePHC(hash)
		if err != nil {
			return Password{}, err
		}
		return Password{matches: h.matches, identity: sha256.Sum256([]byte("argon2id\x00" + hash))}, nil
	case plain != "":
		return Password{matches: newSecret(plain).is, identity: sha256.Sum256([]byte("plain\x00" + plain))}, nil
	}
	return Password{}, nil
}

// The cost of a new hash, at which one check takes some 20 ms: a recommendation of OWASP's password storage cheat sheet.
const (
	newMemory  = 19 * 1024 // KiB
	newTime    = 2
	newThreads = 1
)

// Hash is the argon2id hash of a password, in the PHC string format.
func Hash(plain string) string {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails: the program stops when the system has no randomness
	sum := argon2.IDKey([]byte(plain), salt, newTime, newMemory, newThreads, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", newMemory, newTime, newThreads, encode(salt), encode(sum))
}

// New makes one up, of 120 random bits, that can be typed.
func New() string { return rand.Text()[:24] }

// unmatchable takes the time of a hash and is no password.
var unmatchable = phc{memory: newMemory, time: newTime, threads: newThreads, salt: make([]byte, 16), hash: make([]byte, 32)}

// IsSet says whether anything matches.
func (p Password) IsSet() bool { return p.matches != nil }

// Identity names this password: sessions end when it changes. It is no use for finding the password.
func (p Password) Identity() [sha256.Size]byte { return p.identity }

// Matches compares in a time that does not depend on the typed password. The zero Password takes the time of a hash too: a login of
// an unknown account lasts as long as one of a known account.
func (p Password) Matches(typed string) bool {
	if p.matches == nil {
		unmatchable.matches(typed)
		return false
	}
	return p.matches(typed)
}

// secret compares in a time that depends on neither value: keyed hashes are compared, so that even their lengths
// are equal, and the key is this process's alone.
type secret struct {
	key, sum []byte
}

func newSecret(value string) *secret {
	s := &secret{key: make([]byte, sha256.Size)}
	rand.Read(s.key) // never fails: the program stops when the system has no randomness
	s.sum = s.hash(value)
	return s
}

func (s *secret) hash(value string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

func (s *secret) is(typed string) bool { return subtle.ConstantTimeCompare(s.hash(typed), s.sum) == 1 }
