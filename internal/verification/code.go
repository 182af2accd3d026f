package verification

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"

	"sendcode/internal/store"
)

// code derives the code of a verification. It is a function of the ring's key, the ID and the nonce, so it is stored
// nowhere, and neither the log nor the key alone gives it (SEC-1).
func (s *Service) code(v store.Verification) (string, error) {
	key, err := s.Ring.Subkey(v.KeyID, "code")
	if err != nil {
		return "", err
	}
	if len(v.Nonce) < 16 {
		return "", errors.New("verification: nonce is too short")
	}
	alphabet, ok := alphabets[Alphabet(v.Alphabet)]
	if !ok {
		return "", errors.New("verification: the alphabet is not known here")
	}
	return derive(key, v.ID, v.Nonce, alphabet, v.CodeLength), nil
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
