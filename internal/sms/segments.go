package sms

import "strings"

// Size is what a text takes on the air (3GPP TS 23.038 sections 6.1 and 6.2.1).
type Size struct {
	Segments int
	Unicode  bool // UCS-2; else the GSM 7-bit alphabet
	Units    int  // septets, or UTF-16 code units
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
	units, segments := pack(septets, singleGSM, partGSM)
	return Size{Segments: segments, Units: units}
}

func measureUnicode(text string) Size {
	var widths []int
	for _, r := range text {
		width := 1
		if r > 0xFFFF {
			width = 2 // a surrogate pair
		}
		widths = append(widths, width)
	}
	units, segments := pack(widths, singleUnicode, partUnicode)
	return Size{Segments: segments, Unicode: true, Units: units}
}

// pack counts segments. A character of two units is not cut in two (TS 23.038 section 6.2.1.1): the segment before it ends
// one unit early.
func pack(widths []int, single, part int) (units, segments int) {
	for _, w := range widths {
		units += w
	}
	if units == 0 {
		return 0, 0
	}
	if units <= single {
		return units, 1
	}
	segments, room := 1, part
	for _, w := range widths {
		if w > room {
			segments, room = segments+1, part
		}
		room -= w
	}
	return units, segments
}
