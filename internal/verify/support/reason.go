package support

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/verification"
)

// The longest reasons that the database accepts, in characters: of an action, and of a suppression
// or its end.
const (
	MaxReasonLength            = 500
	MaxSuppressionReasonLength = 200
)

// A plus sign with minDigitsAfterPlus digits, or minNumberDigits digits without a plus, count as a
// phone number; ticket numbers are shorter. A local part with fewer than minLocalPartLength
// characters is not looked for.
const (
	minNumberDigits    = 10
	minDigitsAfterPlus = 7
	minLocalPartLength = 3
)

// CheckReason checks an administrator's reason for an action. The reason is required. The audit log
// keeps it for good, so it must not contain an address, a phone number, or the local part of
// address, the recipient of the action ("": unknown). Error: *fault.InvalidError.
func CheckReason(reason, address string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fault.Invalid("reason", "required", "Say why; it is recorded.")
	case utf8.RuneCountInString(reason) > MaxReasonLength:
		return fault.Invalid("reason", "too_long", "A reason has at most 500 characters.")
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, isHiddenInMultiline):
		return fault.Invalid("reason", "hidden_character", hiddenCharacterDetail)
	case strings.Contains(recipient.AsRead(reason), "@") || ContainsPhoneNumber(reason, minNumberDigits) || containsLocalPart(reason, address):
		return fault.Invalid("reason", "names_recipient",
			"Leave names, addresses and numbers out of the reason: it is kept for good. A ticket's number will do.")
	}
	return nil
}

const hiddenCharacterDetail = "Leave out characters that control, hide or turn text."

// isHiddenInMultiline reports whether a character could make a text of several lines look like
// another text. For example, a character may turn the rest of the line from right to left.
func isHiddenInMultiline(r rune) bool {
	return verification.IsHiddenCharacter(r) && !strings.ContainsRune("\n\r\t", r)
}

// ContainsPhoneNumber reports whether a text contains what a person reads as a phone number, also
// with separators: a plus and seven digits or, without a plus, at least minDigits digits.
func ContainsPhoneNumber(text string, minDigits int) bool {
	digits, plus := 0, false
	for _, r := range recipient.AsRead(text) {
		switch {
		case unicode.IsDigit(r):
			digits++
		case r == '+':
			digits, plus = 0, true
		case strings.ContainsRune(" -.()/", r) && digits > 0, r == '(' && plus:
		default:
			digits, plus = 0, false
		}
		if digits >= minDigits || plus && digits >= minDigitsAfterPlus {
			return true
		}
	}
	return false
}

// containsLocalPart reports whether the text contains the local part of the address, or the part
// before its plus sign, as whole words, with any signs between them and in any case.
func containsLocalPart(text, address string) bool {
	local, _, found := strings.Cut(address, "@")
	base, _, _ := strings.Cut(local, "+")
	if !found || utf8.RuneCountInString(base) < minLocalPartLength {
		return false
	}
	return strings.Contains(spacedWords(text), spacedWords(base))
}

// spacedWords returns a text's words in lower case, with a space around each.
func spacedWords(text string) string {
	words := strings.FieldsFunc(strings.ToLower(recipient.AsRead(text)), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N)
	})
	return " " + strings.Join(words, " ") + " "
}
