package recipient

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

type domain struct {
	ascii   string // lower-case A-labels
	display string // Unicode where that is safe to show, else ascii
}

// parseDomain normalizes a typed domain as browsers do (UTS 46, non-transitional): it lowers case and maps full-width characters and
// ideographic dots, such as in "例子。中国" and "ＥＸＡＭＰＬＥ.com". Error: *InvalidError.
func parseDomain(typed string) (domain, error) {
	if plainDomain(typed) {
		if err := checkLabels(strings.Split(typed, "."), typed); err != nil {
			return domain{}, err
		}
		return domain{ascii: typed, display: typed}, nil
	}
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
		idna.CheckHyphens(false), idna.VerifyDNSLength(true))
	if hasMisplacedDot(typed) {
		return domain{}, invalid(reasonMisplacedDot)
	}
	ascii, err := profile.ToASCII(typed)
	if len(ascii) > maxAddress {
		return domain{}, invalid(reasonTooLong)
	}
	if err != nil {
		return domain{}, invalid(reasonInvalidDomain)
	}
	readable, err := profile.ToUnicode(ascii)
	if err != nil {
		return domain{}, invalid(reasonInvalidDomain)
	}
	if err := checkLabels(strings.Split(ascii, "."), readable); err != nil {
		return domain{}, err
	}
	return domain{ascii: ascii, display: displayDomain(ascii, readable)}, nil
}

// maxLabel is the length of a label of a domain name, in octets (RFC 1035 section 2.3.4).
const maxLabel = 63

// plainDomain reports whether UTS 46 would not change the domain: its labels are lower-case ASCII letters, digits and hyphens, and no
// A-labels. It saves the mapping for most domains, which is the slowest step of parsing an address.
func plainDomain(typed string) bool {
	size, plain := 0, len(typed) < maxAddress
	for i := 0; i < len(typed) && plain; i++ {
		switch c := typed[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
			plain = size < maxLabel && (size > 0 || !strings.HasPrefix(typed[i:], "xn--"))
			size++
		case c == '.':
			plain, size = size > 0, 0
		default:
			return false
		}
	}
	return plain && size > 0
}

// plainDots turns the other three dots of UTS 46 section 2.3 into the first.
var plainDots = strings.NewReplacer("。", ".", "．", ".", "｡", ".")

// hasMisplacedDot reports whether a dot is at the start or the end, or next to another dot. A trailing dot is valid in DNS, but not in a
// mail domain (RFC 5321 section 2.3.5).
func hasMisplacedDot(typed string) bool {
	plain := plainDots.Replace(typed)
	return strings.HasPrefix(plain, ".") || strings.HasSuffix(plain, ".") || strings.Contains(plain, "..")
}

func checkLabels(labels []string, readable string) error {
	top := labels[len(labels)-1]
	switch {
	case strings.Trim(top, "0123456789") == "" && len(labels) == 4:
		return invalid(reasonIPLiteral)
	case len(labels) < 2:
		return invalid(reasonDomainIncomplete)
	case strings.Trim(top, "0123456789") == "": // no top-level domain is numeric (RFC 3696 section 2)
		return invalid(reasonInvalidDomain)
	}
	for _, l := range labels {
		if strings.HasPrefix(l, "-") || strings.HasSuffix(l, "-") {
			return invalid(reasonInvalidDomain)
		}
	}
	if strings.ContainsFunc(readable, isBarred) {
		return invalid(reasonInvalidDomain)
	}
	return nil
}

// isBarred reports whether r is a symbol or emoji, which UTS 46 allows but IDNA 2008 does not (RFC 5892 section 2). The punctuation is
// the CONTEXTO list of IDNA 2008.
func isBarred(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '.':
		return false
	case r == '\u200c', r == '\u200d': // joiners, whose context idna has checked
		return false
	case strings.ContainsRune("·͵׳״・", r):
		return false
	}
	return r < utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}
