package password

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// phc is an argon2id hash in the PHC string format, "$argon2id$v=19$m=65536,t=3,p=4$salt$hash" (RFC 9106), with all
// that is needed to compute it again. Its errors repeat nothing of the text.
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

var (
	errForm    = errors.New("not of the form $argon2id$v=19$m=…,t=…,p=…$salt$hash")
	errVersion = errors.New("only version 19 of argon2id is known")
	errCost    = errors.New("m must be at most 1048576 (KiB), t from 1 to 64 and p from 1 to 255")
	errSalt    = errors.New("the salt must be 8 to 64 bytes of base64 without padding")
	errTag     = errors.New("the hash must be 16 to 64 bytes of base64 without padding")
)

func parsePHC(text string) (phc, error) {
	part := strings.Split(text, "$")
	if len(part) != 6 || part[0] != "" || part[1] != "argon2id" {
		return phc{}, errForm
	}
	if part[2] != "v=19" {
		return phc{}, errVersion
	}
	h, err := parseCost(part[3])
	if err != nil {
		return phc{}, err
	}
	encoding := base64.RawStdEncoding
	if h.salt, err = encoding.DecodeString(part[4]); err != nil || len(h.salt) < minSalt || len(h.salt) > maxSalt {
		return phc{}, errSalt
	}
	if h.hash, err = encoding.DecodeString(part[5]); err != nil || len(h.hash) < minTag || len(h.hash) > maxTag {
		return phc{}, errTag
	}
	return h, nil
}

// parseCost reads "m=65536,t=3,p=4", in this order.
func parseCost(text string) (phc, error) {
	var values [3]uint64
	part := strings.Split(text, ",")
	if len(part) != len(values) {
		return phc{}, errForm
	}
	for i, name := range []string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(part[i], name)
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil {
			return phc{}, errForm
		}
		values[i] = n
	}
	memory, passes, threads := values[0], values[1], values[2]
	if memory < 1 || memory > maxMemory || passes < 1 || passes > maxTime || threads < 1 || threads > 255 {
		return phc{}, errCost
	}
	return phc{memory: uint32(memory), time: uint32(passes), threads: uint8(threads)}, nil
}

func (h phc) matches(typed string) bool {
	sum := argon2.IDKey([]byte(typed), h.salt, h.time, h.memory, h.threads, uint32(len(h.hash)))
	return subtle.ConstantTimeCompare(sum, h.hash) == 1
}
