// Package code is what a verification code is made of: its alphabet, its shape, its derivation, and what a person may type for it.
// It knows nothing of verifications; packages vault and verification use it.
package code

import (
	"strings"
	"unicode"
)

// Alphabet names what a code is made of.
type Alphabet string

// The alphabets. A verification keeps the one that it was opened with, so their names are in the log.
const (
	Digits      Alphabet = "digits"
	Unambiguous Alphabet = "unambiguous"
)

// alphabets are the characters. The unambiguous ones are the consonants of RFC 8628 section 6.1: without vowels no word
// comes up by chance, and without digits none is taken for a letter.
var alphabets = map[Alphabet]string{
	Digits:      "0123456789",
	Unambiguous: "BCDFGHJKLMNPQRSTVWXZ",
}

// Characters are those of a code, in capitals; "" for an alphabet that is not known.
func (a Alphabet) Characters() string { return alphabets[a] }

// Shape is what a person has to enter, as far as it is public.
type Shape struct {
	Alphabet Alphabet
	Length   int // characters
}

// ShapeOf is the shape of a code that was configured: digits, or the unambiguous letters.
func ShapeOf(code string) Shape {
	if strings.Trim(code, alphabets[Digits]) == "" {
		return Shape{Digits, len(code)}
	}
	return Shape{Unambiguous, len(code)}
}

// InvalidError says why a typed text can be no code, without repeating it.
type InvalidError struct {
	Reason string // machine word
	Detail string // sentence
}

func (e *InvalidError) Error() string { return "code: " + e.Reason }

// maxTyped bounds what a person may type for a code, in bytes: ten digits of any script with separators.
const maxTyped = 64

// Read gives the code that a person typed or pasted. Spaces and dashes are dropped. Where codes are digits,
// decimal digits of any script count as digits; where they are letters, small and full-width ones count as capitals. It
// fails with an *InvalidError on anything that no such code contains, so that a slip costs no attempt.
func (a Alphabet) Read(typed string) (string, error) {
	if len(typed) > maxTyped {
		return "", invalid("too_long", a.tooLong())
	}
	var b strings.Builder
	for _, r := range typed {
		if unicode.IsSpace(r) || unicode.In(r, unicode.Dash, unicode.Cf) {
			continue
		}
		c, ok := a.character(r)
		if !ok {
			return "", a.foreign()
		}
		b.WriteByte(c)
	}
	if b.Len() == 0 {
		return "", invalid("required", "The code is missing.")
	}
	return b.String(), nil
}

func (a Alphabet) tooLong() string {
	if a == Unambiguous {
		return "A code is at most 10 characters long."
	}
	return "A code is at most 10 digits long."
}

func (a Alphabet) foreign() error {
	if a == Unambiguous {
		return invalid("not_in_alphabet", "This code consists of the letters "+alphabets[Unambiguous]+"; case, spaces and dashes are ignored.")
	}
	return invalid("not_digits", "A code consists of digits; spaces and dashes are ignored.")
}

// character is what r counts as; false for what no code of the alphabet contains.
func (a Alphabet) character(r rune) (byte, bool) {
	if a != Unambiguous {
		if !unicode.IsDigit(r) {
			return 0, false
		}
		return byte('0' + digitValue(r)), true
	}
	if r >= '！' && r <= '～' { // the full-width forms stand in the order of ASCII
		r -= '！' - '!'
	}
	if r >= 'a' && r <= 'z' { // ASCII alone: elsewhere "ſ" would become "S", and the Kelvin sign "k"
		r -= 'a' - 'A'
	}
	if r > unicode.MaxASCII || !strings.ContainsRune(alphabets[Unambiguous], r) {
		return 0, false
	}
	return byte(r), true
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

func invalid(reason, detail string) error { return &InvalidError{Reason: reason, Detail: detail} }
