package sms

import (
	"strings"
	"unicode/utf16"
)

// Size is what a text takes on the air (3GPP TS 23.038 sections 6.1 and 6.2.1).
type Size struct {
	Segments int
	Unicode  bool // UCS-2; else the GSM 7-bit alphabet
}

// Units of one segment alone, and of each of several: six bytes go to the header that joins them.
const (
	singleGSM, partGSM         = 160, 153
	singleUnicode, partUnicode = 70, 67
)

// basic is the GSM 7-bit default alphabet; each counts one.
const basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡" +
	"ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"

// extension is its table behind the escape; each counts two.
const extension = "\f^{}\\[~]|€"

// Measure says how a text will be coded and how many segments it takes. One character beyond the GSM alphabet, such as a
// backtick or a curly quote, makes the whole text UCS-2.
func Measure(text string) Size {
	septets := make([]int, 0, len(text))
	for _, r := range text {
		switch {
		case strings.ContainsRune(basic, r):
			septets = append(septets, 1)
		case strings.ContainsRune(extension, r):
			septets = append(septets, 2)
		default:
			return measureUnicode(text)
		}
	}
	return Size{Segments: pack(septets, singleGSM, partGSM)}
}

func measureUnicode(text string) Size {
	var widths []int
	for _, r := range text {
		widths = append(widths, utf16.RuneLen(r)) // 2: a surrogate pair
	}
	return Size{Segments: pack(widths, singleUnicode, partUnicode), Unicode: true}
}

// pack counts segments. A character of two units is not cut in two (TS 23.038 section 6.2.1.1): the segment before it ends
// one unit early.
func pack(widths []int, single, part int) (segments int) {
	units, room := 0, 0
	for _, w := range widths {
		if units += w; w > room {
			segments, room = segments+1, part
		}
		room -= w
	}
	if units <= single {
		return min(segments, 1)
	}
	return segments
}
