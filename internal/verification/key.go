package verification

import "strings"

// strongKey reports whether an Idempotency-Key has the form of 128 random bits or more: 32 hexadecimal digits at least and
// nothing else, letters among them, and not the same few over and over. It errs to false. Words, counters and times never
// have this form; a UUID has at most 122 random bits, and letters of base64 cannot be told from words.
func strongKey(key string) bool {
	if len(key) < 32 {
		return false
	}
	seen := map[rune]bool{}
	letters := false
	for _, r := range strings.ToLower(key) {
		if !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
		seen[r] = true
		letters = letters || r >= 'a'
	}
	return letters && len(seen) >= 8
}
