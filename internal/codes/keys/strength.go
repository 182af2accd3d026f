package keys

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minDistinctBytes is the least number of different bytes in a key. The probability that a random
// key has fewer different bytes is below 10^-15.
const minDistinctBytes = 16

// checkStrength rejects keys that were typed, copied from an example, or padded to the required
// length. It cannot prove that a key is random. checkStrength wrongly rejects about one random key
// in ten million.
func checkStrength(encoded string, secret []byte) error {
	const advice = ": make one with `openssl rand -base64 32`"
	switch {
	case len(secret) < minKeyLength:
		return fmt.Errorf("the key has %d bytes, at least %d are needed", len(secret), minKeyLength)
	case isProgression(secret), isRepetition(secret):
		return errors.New("the key is a repeating pattern" + advice)
	case isPublishedExample(encoded):
		return errors.New("the key is a published example" + advice)
	case isPrintableText(secret), looksTyped(encoded):
		return errors.New("the key is text, not random bytes" + advice)
	case len(slices.Compact(slices.Sorted(slices.Values(secret)))) < minDistinctBytes:
		return errors.New("the key has too few different bytes" + advice)
	}
	return nil
}

// isProgression reports whether all steps from one byte to the next are equal, such as 00 00 00 or
// 00 01 02.
func isProgression(secret []byte) bool {
	step := secret[1] - secret[0]
	for i := range secret[1:] {
		if secret[i+1]-secret[i] != step {
			return false
		}
	}
	return true
}

// isRepetition reports whether the key consists of repetitions of a part. The part has at most half
// of the key's length.
func isRepetition(secret []byte) bool {
	for period := 1; period <= len(secret)/2; period++ {
		if bytes.Equal(secret[period:], secret[:len(secret)-period]) {
			return true
		}
	}
	return false
}

// isPublishedExample reports whether the key is a sample key of NIST SP 800-38A (F.1.5) or RFC 7515
// (A.1.1), which tutorials use.
func isPublishedExample(encoded string) bool {
	plain := strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(encoded)
	return slices.Contains([]string{
		"YD3rEBXKcb4rc67whX13gR81LAc7YQjXLZgQowkU3/Q",
		"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ+EstJQLr/T+1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
	}, plain)
}

// isPrintableText reports whether the key is printable text, such as a passphrase or a hexadecimal
// key that was encoded again.
func isPrintableText(secret []byte) bool {
	if !utf8.Valid(secret) {
		return false
	}
	return !bytes.ContainsFunc(secret, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) })
}

// looksTyped reports whether the base64 text contains a word that people type, or lacks upper-case
// or lower-case letters. It looks at the text, because a typed base64 text decodes to bytes that
// look random.
func looksTyped(encoded string) bool {
	lower := strings.ToLower(strings.NewReplacer("-", "", "_", "", "+", "", "/", "").Replace(encoded))
	for _, word := range []string{"changeme", "example", "password", "replace", "secret", "sample", "insert"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	oneCase := func(in func(rune) bool) bool { return !strings.ContainsFunc(encoded, in) }
	return oneCase(unicode.IsUpper) || oneCase(unicode.IsLower)
}
