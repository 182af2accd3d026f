package support

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/verification"
)

// MaxReasonLength bounds the reason for an action, and MaxSuppressionReasonLength the reason of a
// suppression or of its end; in characters.
const (
	MaxReasonLength            = 500
	MaxSuppressionReasonLength = 200
)

// These limits decide what counts as personal data in a text. A phone number has at least
// minDigitsAfterPlus digits after a plus sign, or at least minNumberDigits without one. Ticket
// numbers are shorter. containsLocalPart ignores local parts with fewer than minLocalPartLength
// characters.
const (
	minNumberDigits    = 10
	minDigitsAfterPlus = 7
	minLocalPartLength = 3
)

// CheckReason checks an administrator's reason for an action, which is required. The audit log
// keeps it for good, so it must contain neither an address nor a phone number, nor the local part
// of address, the recipient of the action (empty if unknown). Error: *fault.InvalidError.
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

const hiddenCharacterDetail = "Leave out characters that control, hide or reverse text."

// isHiddenInMultiline reports whether a character could make a text of several lines look like
// another text, for example by turning the rest of the line from right to left.
func isHiddenInMultiline(r rune) bool {
	return verification.IsHiddenCharacter(r) && !strings.ContainsRune("\n\r\t", r)
}

// ContainsPhoneNumber reports whether a person would see a phone number in a text: at least seven
// digits after a plus sign, or at least minDigits without one, perhaps with separators between
// them.
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

// containsLocalPart looks for the words of the address's local part before a plus sign, in any case
// and with any signs between them.
func containsLocalPart(text, address string) bool {
	local, _, found := strings.Cut(address, "@")
	base, _, _ := strings.Cut(local, "+")
	if !found || utf8.RuneCountInString(base) < minLocalPartLength {
		return false
	}
	return strings.Contains(spacedWords(text), spacedWords(base))
}

func spacedWords(text string) string {
	words := strings.FieldsFunc(strings.ToLower(recipient.AsRead(text)), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N)
	})
	return " " + strings.Join(words, " ") + " "
}
