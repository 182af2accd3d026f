package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/argon2"
)

// password decides who may log in. The zero password refuses every login.
type password struct {
	matches  func(typed string) bool
	identity [sha256.Size]byte // names this password: sessions end when it changes
}

// passwordOf takes the password itself or its hash; the hash wins.
func passwordOf(plain, hash string) (password, error) {
	switch {
	case hash != "":
		h, err := parsePHC(hash)
		if err != nil {
			return password{}, err
		}
		return password{matches: h.is, identity: sha256.Sum256([]byte("argon2id\x00" + hash))}, nil
	case plain != "":
		return password{matches: newSecret(plain).is, identity: sha256.Sum256([]byte("plain\x00" + plain))}, nil
	}
	return password{}, nil
}

// The cost of a new hash, at which one check takes some 20 ms: a recommendation of OWASP's password storage cheat sheet.
const (
	newMemory  = 19 * 1024 // KiB
	newTime    = 2
	newThreads = 1
)

// HashPassword is the argon2id hash of a password, in the PHC string format.
func HashPassword(plain string) string {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails: the program stops when the system has no randomness
	sum := argon2.IDKey([]byte(plain), salt, newTime, newMemory, newThreads, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", newMemory, newTime, newThreads, encode(salt), encode(sum))
}

// NewPassword makes one up, of 120 random bits, that can be typed.
func NewPassword() string { return rand.Text()[:24] }

// unmatchable takes the time of a hash and is no password.
var unmatchable = phc{memory: newMemory, time: newTime, threads: newThreads, salt: make([]byte, 16), hash: make([]byte, 32)}

func (p password) isSet() bool { return p.matches != nil }

func (p password) proof() proof { return proof{set: p.isSet(), identity: p.identity} }

func (p password) is(typed string) bool { return p.matches != nil && p.matches(typed) }

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
