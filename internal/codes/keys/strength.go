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

// A random key has fewer than minDistinctBytes different bytes with a probability below 10^-15.
const minDistinctBytes = 16

// checkStrength rejects keys that were typed, copied from an example, or padded to length. It can't
// prove that a key is random, and wrongly rejects about one random key in ten million.
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

// isProgression finds keys such as 00 00 00 … and 00 01 02 ….
func isProgression(secret []byte) bool {
	step := secret[1] - secret[0]
	for i := range secret[1:] {
		if secret[i+1]-secret[i] != step {
			return false
		}
	}
	return true
}

// isRepetition finds keys that repeat a part of at most half their length.
func isRepetition(secret []byte) bool {
	for period := 1; period <= len(secret)/2; period++ {
		if bytes.Equal(secret[period:], secret[:len(secret)-period]) {
			return true
		}
	}
	return false
}

// isPublishedExample finds the keys of NIST SP 800-38A (F.1.5) and RFC 7515 (A.1.1), which
// tutorials use.
func isPublishedExample(encoded string) bool {
	plain := strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(encoded)
	return slices.Contains([]string{
		"YD3rEBXKcb4rc67whX13gR81LAc7YQjXLZgQowkU3/Q",
		"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ+EstJQLr/T+1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
	}, plain)
}

// isPrintableText finds passphrases, and hexadecimal keys that were encoded again.
func isPrintableText(secret []byte) bool {
	if !utf8.Valid(secret) {
		return false
	}
	return !bytes.ContainsFunc(secret, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) })
}

// looksTyped finds words that people type, and a lack of upper-case or lower-case letters. It looks
// at the base64 text, because if that was typed, the bytes look random.
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
