// Package code derives verification codes, and parses codes that a person typed. Packages keys and
// verification use it.
package code

import (
	"strconv"
	"strings"
	"unicode"

	"sendcode/internal/base/fault"
)

// Alphabet names the set of characters of a code.
type Alphabet string

// The alphabets. The database stores the name of the alphabet with each verification, so do not
// change these names.
const (
	Digits      Alphabet = "digits"
	Unambiguous Alphabet = "unambiguous"
)

// alphabets has the characters of each alphabet. Unambiguous has the consonants of RFC 8628 section
// 6.1. Without vowels, a random code forms no words. Without digits, no letter can be mistaken for
// a digit.
var alphabets = map[Alphabet]string{
	Digits:      "0123456789",
	Unambiguous: "BCDFGHJKLMNPQRSTVWXZ",
}

// Characters returns the alphabet's characters, in capitals; "" for an unknown alphabet.
func (a Alphabet) Characters() string { return alphabets[a] }

// Format is the public form of a code: its alphabet and length.
type Format struct {
	Alphabet Alphabet
	Length   int // characters
}

// FormatOf returns the format of a configured code. Its alphabet is Digits if the code has only
// digits, otherwise Unambiguous.
func FormatOf(code string) Format {
	if strings.Trim(code, alphabets[Digits]) == "" {
		return Format{Digits, len(code)}
	}
	return Format{Unambiguous, len(code)}
}

// normalize converts a typed or pasted code to the form in which codes are compared. It removes all
// characters except letters and numbers. For Digits, it converts decimal digits of any script. For
// Unambiguous, it converts lower-case and full-width letters. A text that repeats one code becomes
// this code.
//
// normalize returns a *fault.InvalidError if no character is left, if a character is not in the
// alphabet, or if the text does not have the format's length. The caller need not count such a text
// as an attempt.
func (f Format) normalize(typed string) (string, error) {
	read, ok := f.Alphabet.read(typed)
	switch {
	case !ok:
		return "", f.Alphabet.characterError()
	case read == "":
		return "", codeError("required", "The code is missing.")
	case len(read) < f.Length:
		return "", f.lengthError("too_short")
	case read != strings.Repeat(read[:f.Length], len(read)/f.Length):
		return "", f.lengthError("too_long")
	}
	return read[:f.Length], nil
}

func (f Format) lengthError(reason string) error {
	if f.Alphabet == Unambiguous {
		return codeError(reason, "The code has "+strconv.Itoa(f.Length)+" letters.")
	}
	return codeError(reason, "The code has "+strconv.Itoa(f.Length)+" digits.")
}

// read returns the letters and numbers of a text as characters of the alphabet; false if a
// character is not in the alphabet.
func (a Alphabet) read(typed string) (string, bool) {
	var b strings.Builder
	for _, r := range typed {
		if isMark(r) {
			continue
		}
		c, ok := a.toCharacter(r)
		if !ok {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// isMark reports whether r is neither a letter nor a number. Circled letters and numbers are not
// marks.
func isMark(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.Is(unicode.Other_Alphabetic, r)
}

func (a Alphabet) characterError() error {
	if a == Unambiguous {
		return codeError("not_in_alphabet",
			"This code consists of the letters "+alphabets[Unambiguous]+"; case, spaces and punctuation are ignored.")
	}
	return codeError("not_digits", "A code consists of digits; spaces and punctuation are ignored.")
}

// toCharacter converts r to a character of the alphabet; false if there is none.
func (a Alphabet) toCharacter(r rune) (byte, bool) {
	if a != Unambiguous {
		if !unicode.IsDigit(r) {
			return 0, false
		}
		return byte('0' + digitValue(r)), true
	}
	if r >= '！' && r <= '～' { // full-width forms have the same order as ASCII
		r -= '！' - '!'
	}
	if r >= 'a' && r <= 'z' { // only ASCII: Unicode rules would convert "ſ" to "S" and the Kelvin sign to "k"
		r -= 'a' - 'A'
	}
	if r > unicode.MaxASCII || !strings.ContainsRune(alphabets[Unambiguous], r) {
		return 0, false
	}
	return byte(r), true
}

// digitValue returns the value of a decimal digit of any script. In Unicode, the ten digits of a
// script are consecutive and begin with zero (Unicode Standard, section 4.6). So the length of each
// range of the category Nd is a multiple of ten.
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

func codeError(reason, detail string) error { return fault.Invalid("code", reason, detail) }
