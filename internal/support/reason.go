package support

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxActReason is in characters; the log takes as many.
const maxActReason = 500

// Digits that make a telephone number: a plus sign and so many after it, or so many without one. Numbers of tickets
// are shorter.
const (
	numberDigits = 10
	plusDigits   = 7
	nameLetters  = 3
)

// CheckReason says whether a text is accepted as an administrator's reason. It is required, and it must name no person: actions are kept
// for good, so an address in one could not be erased. to is the address that the act is about, where it is known: its local part
// is not to be named either. Errors: *InvalidError.
func CheckReason(reason, to string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return invalid("reason", "required", "Say why; it is recorded.")
	case utf8.RuneCountInString(reason) > maxActReason || !utf8.ValidString(reason) || strings.ContainsFunc(reason, isControl):
		return invalid("reason", "invalid", "A reason has at most 500 characters and no control characters.")
	case strings.ContainsAny(reason, "@＠") || HasPhoneNumber(reason, numberDigits) || containsLocalPart(reason, to):
		return invalid("reason", "names_recipient",
			"Leave names, addresses and numbers out of the reason: it is kept for good. A ticket's number will do.")
	}
	return nil
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

// HasPhoneNumber reports whether a text has what may be a telephone number, also a grouped one: a plus and seven digits or, without a plus, at
// least so many digits.
func HasPhoneNumber(text string, withoutPlus int) bool {
	digits, plus := 0, false
	for _, r := range text {
		switch {
		case unicode.IsDigit(r):
			digits++
		case r == '+' || r == '＋':
			digits, plus = 0, true
		case strings.ContainsRune(" -.()/\u00a0", r) && digits > 0:
		default:
			digits, plus = 0, false
		}
		if digits >= withoutPlus || plus && digits >= plusDigits {
			return true
		}
	}
	return false
}

// containsLocalPart finds the local part of an address as a word.
func containsLocalPart(text, address string) bool {
	local, _, found := strings.Cut(address, "@")
	if !found || utf8.RuneCountInString(local) < nameLetters {
		return false
	}
	text, local = strings.ToLower(text), strings.ToLower(local)
	for rest := text; ; {
		before, after, found := strings.Cut(rest, local)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if !isWord(last) && !isWord(next) {
			return true
		}
		rest = after
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
