package verification

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"strings"
	"unicode"

	"sendcode/internal/audit"
)

const digits = "0123456789"

// code derives the code of a verification. It is a function of the ring's key, the ID and the nonce, so it is stored
// nowhere, and neither the log nor the key alone gives it (SEC-1).
func (s *Service) code(v audit.Verification) (string, error) {
	key, err := s.Ring.Subkey(v.KeyID, "code")
	if err != nil {
		return "", err
	}
	if len(v.Nonce) < 16 {
		return "", errors.New("verification: nonce is too short")
	}
	return derive(key, v.ID, v.Nonce, digits, v.CodeLength), nil
}

// derive draws length characters of the alphabet from HMAC-SHA-256 in counter mode. Bytes that would favour the
// alphabet's first characters are thrown away, so each code is equally likely (SEC-2).
func derive(key []byte, id string, nonce []byte, alphabet string, length int) string {
	limit := 256 - 256%len(alphabet)
	out := make([]byte, 0, length)
	for block := uint32(0); ; block++ {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("sendcode code v1\x00"))
		mac.Write([]byte(id))
		mac.Write([]byte{0})
		mac.Write(nonce)
		mac.Write(binary.BigEndian.AppendUint32(nil, block))
		for _, b := range mac.Sum(nil) {
			if int(b) >= limit {
				continue
			}
			if out = append(out, alphabet[int(b)%len(alphabet)]); len(out) == length {
				return string(out)
			}
		}
	}
}

// equal compares in constant time (SEC-8).
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// maxTyped bounds what a person may type for a code, in bytes: ten digits of any script with separators.
const maxTyped = 64

// normalise reads what a person typed or pasted: spaces and dashes are dropped, decimal digits of any script count
// as digits (UI-6). It fails on anything that no code contains, so that a slip costs no try.
func normalise(typed string) (string, error) {
	if len(typed) > maxTyped {
		return "", invalid("code", "too_long", "A code is at most 10 digits long.")
	}
	var b strings.Builder
	for _, r := range typed {
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.Dash, r) || unicode.Is(unicode.Cf, r):
		case unicode.IsDigit(r):
			b.WriteByte(byte('0' + digitValue(r)))
		default:
			return "", invalid("code", "not_digits", "A code consists of digits; spaces and dashes are ignored.")
		}
	}
	if b.Len() == 0 {
		return "", invalid("code", "required", "The code is missing.")
	}
	return b.String(), nil
}

// digitValue is the value of a decimal digit. Unicode keeps each script's ten digits in one run, zero first, so a
// range of the category Nd holds whole runs (Unicode Standard, section 4.6).
func digitValue(r rune) int {
	for _, run := range unicode.Nd.R16 {
		if uint32(r) >= uint32(run.Lo) && uint32(r) <= uint32(run.Hi) {
			return int(uint32(r)-uint32(run.Lo)) % 10
		}
	}
	for _, run := range unicode.Nd.R32 {
		if uint32(r) >= run.Lo && uint32(r) <= run.Hi {
			return int(uint32(r)-run.Lo) % 10
		}
	}
	return 0
}
