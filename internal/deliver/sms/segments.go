package sms

import (
	"strings"
	"unicode/utf16"
)

// The first constant of each line is the greatest length of a message with one segment. The second
// is the greatest length of each segment of a longer message, where a header takes six bytes.
// Lengths are septets in GSM-7, and 16-bit units in UCS-2.
const (
	singleGSMUnits, partGSMUnits   = 160, 153
	singleUCS2Units, partUCS2Units = 70, 67
)

// gsmAlphabet is the GSM 7-bit default alphabet. Each character takes one septet.
const gsmAlphabet = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡" +
	"ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"

// Each character of gsmExtension takes two septets: an escape, then the character.
const gsmExtension = "\f^{}\\[~]|€"

// NeedsUCS2 reports whether the text goes beyond the GSM 7-bit alphabet. A single backtick or curly
// quote makes it all UCS-2.
func NeedsUCS2(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(gsmAlphabet+gsmExtension, r) })
}

// Segments returns how many segments a text needs (3GPP TS 23.038 sections 6.1 and 6.2.1). A
// character of two units is never split: if one unit is free in a segment, it stays unused.
func Segments(text string) (segments int) {
	single, part, width := singleGSMUnits, partGSMUnits, unitsGSM
	if NeedsUCS2(text) {
		single, part, width = singleUCS2Units, partUCS2Units, utf16.RuneLen
	}
	units, room := 0, 0
	for _, r := range text {
		w := width(r)
		units += w
		if w > room {
			segments, room = segments+1, part
		}
		room -= w
	}
	if units <= single {
		return min(segments, 1)
	}
	return segments
}

func unitsGSM(r rune) int {
	if strings.ContainsRune(gsmExtension, r) {
		return 2
	}
	return 1
}
