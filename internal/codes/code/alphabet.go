// Package code derives verification codes, and finds them in what a person typed.
package code

import (
	"strconv"
	"strings"
	"unicode"

	"sendcode/internal/base/fault"
)

type Alphabet string

// These names are stored with each verification, so never change them.
const (
	Digits      Alphabet = "digits"
	Unambiguous Alphabet = "unambiguous"
)

// Unambiguous has the consonants of RFC 8628 section 6.1. Without vowels a random code forms no
// words, and without digits no letter is mistaken for one.
var alphabets = map[Alphabet]string{
	Digits:      "0123456789",
	Unambiguous: "BCDFGHJKLMNPQRSTVWXZ",
}

// Characters returns the alphabet in capitals, or "" for an unknown alphabet.
func (a Alphabet) Characters() string { return alphabets[a] }

type Format struct {
	Alphabet Alphabet
	Length   int // characters
}

// FormatOf returns the format of a configured code.
func FormatOf(code string) Format {
	if strings.Trim(code, alphabets[Digits]) == "" {
		return Format{Digits, len(code)}
	}
	return Format{Unambiguous, len(code)}
}

// normalize brings a typed code into the form in which codes are compared. It drops all characters
// but letters and numbers. Digits of any script become ASCII digits, small and full-width letters
// become capitals, and a code that is typed twice counts once.
//
// It returns a *fault.InvalidError if nothing is left, a character isn't in the alphabet, or the
// length is wrong. Callers need not count such input as an attempt.
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

// isMark reports whether r is neither a letter nor a number. Circled letters and numbers are no
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

// digitValue returns the value of a decimal digit of any script. A script's ten digits are
// consecutive and begin with zero (Unicode Standard, section 4.6), so each range of unicode.Nd
// begins with a zero.
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
