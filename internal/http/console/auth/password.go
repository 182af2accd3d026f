package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/argon2"
)

// credential is the password of an account, or an identity that the provider confirmed. No typed
// text matches an identity. The zero credential allows no login.
type credential struct {
	hash     argon2Hash
	identity [sha256.Size]byte // a hash that is different for each credential; sessions end when the hash changes
}

// newCredential returns the credential of a plain password or of a password's hash in PHC format.
// If both are given, the hash is used. If both are empty, the credential is zero. The error
// contains no part of the hash.
func newCredential(plain, hash string) (credential, error) {
	switch {
	case hash != "":
		h, err := parsePHC(hash)
		if err != nil {
			return credential{}, err
		}
		return credential{h, sha256.Sum256([]byte("argon2id\x00" + hash))}, nil
	case plain != "":
		return credential{newHash(plain), sha256.Sum256([]byte("plain\x00" + plain))}, nil
	}
	return credential{}, nil
}

// hashPassword returns the argon2id hash of a password, in PHC format.
func hashPassword(plain string) string { return newHash(plain).String() }

func newHash(plain string) argon2Hash {
	h := unmatchableHash
	h.salt = make([]byte, len(unmatchableHash.salt))
	rand.Read(h.salt) // never fails: the program stops when the system has no randomness
	h.hash = h.compute(plain)
	return h
}

// newPassword returns a random password of 120 bits that can be typed.
func newPassword() string { return rand.Text()[:24] }

// unmatchableHash is a hash that no password matches. Comparing a password with this hash takes as
// long as with a new hash, about 20 ms. OWASP's password storage cheat sheet recommends this cost.
var unmatchableHash = argon2Hash{memory: 19 * 1024, time: 2, threads: 1, salt: make([]byte, 16), hash: make([]byte, 32)}

// CheapHashesForTests sets the cost of new hashes and of unmatchableHash to the minimum, because
// tests log in hundreds of times. Only a TestMain may call it, before any test runs.
func CheapHashesForTests() { unmatchableHash.memory, unmatchableHash.time = 64, 1 }

// isSet reports whether the credential is not the zero credential.
func (c credential) isSet() bool { return c.identity != [sha256.Size]byte{} }

// comparisons returns the hashes that a login computes. The first is the hash of the account's
// credential, and only this hash may match the typed password. The others only take time, so that a
// login takes about the same time whether or not the account exists. Without them the time could
// differ, because the configured account's hash may have another cost than the hashes of other
// accounts.
func (c credential) comparisons(configured credential) []argon2Hash {
	all := []argon2Hash{unmatchableHash}
	if len(c.hash.hash) > 0 {
		all[0] = c.hash
	}
	for _, other := range []argon2Hash{unmatchableHash, configured.hash} {
		if len(other.hash) > 0 && !slices.ContainsFunc(all, func(h argon2Hash) bool { return h.prefix() == other.prefix() }) {
			all = append(all, other)
		}
	}
	return all
}

// argon2Hash is an argon2id hash parsed from the PHC string format,
// "$argon2id$v=19$m=65536,t=3,p=4$salt$hash" (RFC 9106), with all parameters needed to hash another
// password equally.
type argon2Hash struct {
	memory  uint32 // KiB
	time    uint32
	threads uint8
	salt    []byte
	hash    []byte
}

// These constants bound the parameters of a hash. Within the bounds, argon2 does not panic and does
// not exhaust the machine. The bounds do not ensure a strong hash.
const (
	maxArgon2Memory              = 1 << 20 // KiB
	maxArgon2Time                = 64
	minSaltLength, maxSaltLength = 8, 64 // bytes; RFC 9106 section 3.1 recommends 16
	minTagLength, maxTagLength   = 16, 64
)

// errPHCForm quotes no part of the hash, because the error is logged.
var errPHCForm = errors.New("is not of the form $argon2id$v=19$m=…,t=…,p=…$salt$hash, or its parameters are out of bounds")

func parsePHC(text string) (h argon2Hash, err error) {
	part := strings.Split(text, "$")
	if len(part) != 6 {
		return argon2Hash{}, errPHCForm
	}
	_, err = fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads)
	var saltErr, hashErr error
	h.salt, saltErr = base64.RawStdEncoding.DecodeString(part[4])
	h.hash, hashErr = base64.RawStdEncoding.DecodeString(part[5])
	within := func(n, least, most int) bool { return least <= n && n <= most }
	if err != nil || saltErr != nil || hashErr != nil || !strings.HasPrefix(text, h.prefix()) ||
		!within(int(h.memory), 1, maxArgon2Memory) || !within(int(h.time), 1, maxArgon2Time) || h.threads == 0 ||
		!within(len(h.salt), minSaltLength, maxSaltLength) || !within(len(h.hash), minTagLength, maxTagLength) {
		return argon2Hash{}, errPHCForm
	}
	return h, nil
}

// prefix returns the part of the PHC string before the salt.
func (h argon2Hash) prefix() string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$", h.memory, h.time, h.threads)
}

func (h argon2Hash) String() string {
	encode := base64.RawStdEncoding.EncodeToString
	return h.prefix() + encode(h.salt) + "$" + encode(h.hash)
}

// compute returns the hash of a typed password, with the cost and the salt of h.
func (h argon2Hash) compute(typed string) []byte {
	return argon2.IDKey([]byte(typed), h.salt, h.time, h.memory, h.threads, uint32(len(h.hash)))
}

func (h argon2Hash) matches(typed string) bool {
	return subtle.ConstantTimeCompare(h.compute(typed), h.hash) == 1
}
