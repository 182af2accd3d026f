package recipient

import (
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// wellKnownDomains are the domains that may be suggested. If two are equally close, the first one
// is suggested.
var wellKnownDomains = []string{
	"gmail.com", "outlook.com", "hotmail.com", "yahoo.com", "icloud.com", "qq.com", "163.com", "126.com",
	"foxmail.com", "sina.com", "sina.cn", "sohu.com", "139.com", "189.cn", "aliyun.com", "yeah.net", "tom.com",
	"21cn.com",
	"vip.qq.com", "vip.163.com", "live.com", "msn.com", "me.com", "mac.com", "aol.com", "proton.me", "protonmail.com",
	"gmx.de", "gmx.net", "gmx.com", "web.de", "t-online.de", "mail.ru", "yandex.ru", "naver.com", "daum.net",
	"hanmail.net",
	"yahoo.co.uk", "yahoo.co.jp", "hotmail.co.uk", "orange.fr", "wanadoo.fr", "laposte.net", "libero.it", "comcast.net",
	"fastmail.com", "zoho.com", "example.com", "example.org", "googlemail.com",
}

// realLookAlikeDomains are real domains that look like typos of more common ones. They are neither
// corrected nor suggested.
var realLookAlikeDomains = []string{"mail.com", "email.com", "ymail.com", "gmx.at", "gmx.ch", "tutamail.com", "vip.126.com"}

// A well-known domain of at least longDomainLength characters is suggested even if the typed one is
// two edits away. "outlook.com" is long enough. "gmail.com" isn't, because too many real domains
// are two edits away from it.
const longDomainLength = 10

// If the name of a well-known domain has at most shortNameLength characters, only the part after
// the name is corrected: "live" is one typing error away from many real names, such as "line".
const shortNameLength = 4

// SuggestDomain returns a correction if the domain of an address, or a mere domain, looks like a
// typo of a well-known one. Ask the person before using it.
func SuggestDomain(address string) (string, bool) {
	at := strings.LastIndexByte(address, '@') + 1
	typed := strings.ToLower(address[at:])
	if len(typed) > 64 || slices.Contains(wellKnownDomains, typed) || slices.Contains(realLookAlikeDomains, typed) {
		return "", false
	}
	best, bestDistance := "", 3
	for _, known := range wellKnownDomains {
		if d := EditDistance(typed, known); d < bestDistance && isPlausibleTypo(typed, known, d) {
			best, bestDistance = known, d
		}
	}
	if best == "" {
		return "", false
	}
	return address[:at] + best, true
}

// isPlausibleTypo reports whether a typed domain is more likely a typo of known than a domain of
// its own. d is the EditDistance of the two.
func isPlausibleTypo(typed, known string, d int) bool {
	name, _, dotted := strings.Cut(typed, ".")
	knownName, _, _ := strings.Cut(known, ".")
	_, registered := publicsuffix.PublicSuffix(typed)
	switch {
	case !dotted:
		return d == 1 // as in "gmailcom"
	case len(knownName) <= shortNameLength:
		return name == knownName && !registered
	case name == knownName && registered:
		return d == 1 // "gmail.co" is a slip, "hotmail.ca" is a domain of its own
	case len(known) >= longDomainLength:
		return d <= 2
	}
	return d == 1
}
