package auth

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// phc is an argon2id hash in the PHC string format, "$argon2id$v=19$m=65536,t=3,p=4$salt$hash" (RFC 9106), with all
// that is needed to compute it again.
type phc struct {
	memory  uint32 // KiB
	time    uint32
	threads uint8
	salt    []byte
	hash    []byte
}

// Bounds within which argon2 neither panics nor takes the machine down. How strong a hash must be is for the
// configuration to say.
const (
	maxMemory        = 1 << 20 // KiB
	maxTime          = 64
	minSalt, maxSalt = 8, 64 // bytes, RFC 9106 section 3.1
	minTag, maxTag   = 16, 64
)

// errForm repeats nothing of the text.
var errForm = errors.New("not of the form $argon2id$v=19$m=…,t=…,p=…$salt$hash, or out of bounds")

func parsePHC(text string) (h phc, err error) {
	part := strings.Split(text, "$")
	if len(part) != 6 {
		return phc{}, errForm
	}
	_, err = fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads)
	var saltErr, hashErr error
	h.salt, saltErr = base64.RawStdEncoding.DecodeString(part[4])
	h.hash, hashErr = base64.RawStdEncoding.DecodeString(part[5])
	within := func(n, least, most int) bool { return least <= n && n <= most }
	if err != nil || saltErr != nil || hashErr != nil || !strings.HasPrefix(text, h.prefix()) ||
		!within(int(h.memory), 1, maxMemory) || !within(int(h.time), 1, maxTime) || h.threads == 0 ||
		!within(len(h.salt), minSalt, maxSalt) || !within(len(h.hash), minTag, maxTag) {
		return phc{}, errForm
	}
	return h, nil
}

// prefix is what stands before the salt.
func (h phc) prefix() string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$", h.memory, h.time, h.threads)
}

func (h phc) String() string {
	encode := base64.RawStdEncoding.EncodeToString
	return h.prefix() + encode(h.salt) + "$" + encode(h.hash)
}

// of is the hash of another password at the same cost and with the same salt.
func (h phc) of(typed string) []byte {
	return argon2.IDKey([]byte(typed), h.salt, h.time, h.memory, h.threads, uint32(len(h.hash)))
}

func (h phc) matches(typed string) bool { return subtle.ConstantTimeCompare(h.of(typed), h.hash) == 1 }
