package code

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
)

const minNonceLength = 16 // bytes

// Derive computes the code of a verification. The code isn't stored, since the key and the nonce
// are enough to compute it again. Derive fails if the nonce is too short or the alphabet unknown.
func Derive(key []byte, id string, nonce []byte, s Format) (string, error) {
	if len(nonce) < minNonceLength {
		return "", errors.New("code: the nonce is too short")
	}
	characters := s.Alphabet.Characters()
	if characters == "" {
		return "", errors.New("code: the alphabet is unknown")
	}
	return deriveCharacters(key, id, nonce, characters, s.Length), nil
}

// deriveCharacters uses HMAC-SHA-256 in counter mode, and skips bytes that would make some
// characters more likely than others.
func deriveCharacters(key []byte, id string, nonce []byte, characters string, length int) string {
	limit := 256 - 256%len(characters)
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
			out = append(out, characters[int(b)%len(characters)])
			if len(out) == length {
				return string(out)
			}
		}
	}
}

// Equal compares two codes in constant time.
func Equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
