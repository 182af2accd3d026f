package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net/mail"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the database of time zones, for systems that lack it, such as a bare container
	"unicode/utf8"

	"sendcode/internal/base/document"
	"sendcode/internal/base/loopback"
	"sendcode/internal/base/message"
	"sendcode/internal/codes/code"
)

func problemIf(wrong bool, problem string) string {
	if wrong {
		return problem
	}
	return ""
}

// patternCheck returns a check for texts: if the regular expression does not match a text, the
// check returns problem.
func patternCheck(pattern, problem string) func(string) string {
	expression := regexp.MustCompile(pattern)
	return func(text string) string { return problemIf(!expression.MatchString(text), problem) }
}

// checkName checks a name that an administrator gives, such as that of a purpose, an app or a key.
// It returns the problem, or "". Such names appear in answers, headers, metrics and keys of Redis.
var checkName = patternCheck(`^[a-z0-9_-]{1,32}$`, "a name has 1 to 32 of a-z 0-9 _ -")

// checkTitle returns the problem with the title of an app or a purpose, or "". Messages contain the
// title, so no part of it may look like a link.
func checkTitle(text string) string {
	const maxLength = 64
	hidden := message.HiddenCharacter(text)
	switch {
	case utf8.RuneCountInString(text) > maxLength:
		return "must be at most 64 characters"
	case hidden != "":
		return "has " + hidden + ", which controls or hides text"
	case strings.ContainsAny(text, "/@<>:") || hostLikePattern.MatchString(text):
		return "must not look like a link or an address"
	}
	return ""
}

// checkLanguage returns a problem unless text is a BCP 47 tag in its canonical form.
func checkLanguage(text string) string {
	tag, ok := message.CanonicalTag(text)
	return problemIf(!ok || tag != text, "must be a language as a BCP 47 tag: en, zh-Hans, pt-BR")
}

// hostLikePattern matches a dot between letters: mail programs turn "shop.example" into a link.
var hostLikePattern = regexp.MustCompile(`\p{L}\.\p{L}`)

// appSchemes are the URL schemes of pages in apps (Capacitor, Ionic, Tauri) and in browser
// extensions. The service compares origins with these schemes in the same way as origins of sites.
var appSchemes = []string{"capacitor", "ionic", "tauri", "chrome-extension", "moz-extension"}

// checkPageOrigin returns a problem unless text is the origin of a site or of an app's pages.
func checkPageOrigin(text string) string {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(appSchemes, u.Scheme) {
		return checkOrigin(text)
	}
	return problemIf(u.Host == "" || text != u.Scheme+"://"+u.Host, "must be an origin such as capacitor://localhost")
}

// checkOrigin returns a problem unless text is an origin in exactly the form that browsers send
// (RFC 6454 section 6.2). Origins are compared byte by byte.
func checkOrigin(text string) string {
	if strings.ContainsAny(text, "*?") {
		return "must be one exact origin; patterns are not allowed"
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "must be an origin such as https://shop.example"
	}
	canonical := canonicalOrigin(u)
	switch {
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "must be written with the ASCII form of its domain (xn--…), as browsers send it"
	case text != canonical && u.User == nil:
		return "must be written as browsers send it: " + document.Printable(canonical)
	case text != canonical || strings.HasSuffix(canonical, ":"):
		return "must be an origin such as https://shop.example"
	}
	return ""
}

// canonicalOrigin returns a URL's origin as browsers write it.
func canonicalOrigin(u *url.URL) string {
	host, port := strings.ToLower(u.Host), u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host
}

// checkReturnURL returns a problem unless text is an origin, with or without a path, in the form in
// which the service compares return URLs.
func checkReturnURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsAny(text, "*?#") {
		return "must be an origin such as https://shop.example, or one with a path such as https://shop.example/signup"
	}
	if problem := checkOrigin(u.Scheme + "://" + u.Host); problem != "" {
		return problem
	}
	clean := path.Clean("/" + u.Path)
	plain := u.Path == "" || u.Path == clean || u.Path == clean+"/"
	return problemIf(u.RawPath != "" || !plain, "must have a plain path, without . and .. and escapes")
}

// checkHomeLink returns a problem unless text is an https link, or an http link to this machine.
// Mails and the page show the link.
func checkHomeLink(text string) string {
	u, err := url.Parse(text)
	return problemIf(err != nil || u.Host == "" || u.User != nil || checkOrigin(u.Scheme+"://"+u.Host) != "" ||
		u.Scheme != "https" && !loopback.IsHost(u.Hostname()),
		"must be a URL such as https://shop.example/, with https")
}

// logoPathPattern matches the paths that a logo's URL may have. Other characters can end a source
// in a content security policy. Escapes such as %41 don't match, since browsers compare the decoded
// path with the policy.
var logoPathPattern = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

func checkLogo(text string) string {
	u, err := url.Parse(text)
	return problemIf(err != nil || checkHomeLink(text) != "" || strings.ContainsAny(text, "?#") ||
		!logoPathPattern.MatchString(u.EscapedPath()),
		"must be the URL of an image such as https://shop.example/logo.svg, with https, a plain path and no query")
}

// sha256Check returns a check for a SHA-256 in hex. The check rejects a hash of all zeros. It also
// rejects the hash of the empty text, since an empty token would match that hash.
func sha256Check(of, complaint string) func(string) string {
	return func(text string) string {
		sum, err := hex.DecodeString(text)
		switch {
		case err != nil || len(sum) != sha256.Size:
			return complaint
		case [sha256.Size]byte(sum) == [sha256.Size]byte{} || [sha256.Size]byte(sum) == sha256.Sum256(nil):
			return "is not the hash of " + of
		}
		return ""
	}
}

// Bounds of a code's length, in characters. NIST SP 800-63B requires at least six digits.
const (
	minCodeLength = 6
	maxCodeLength = 10
)

func checkTestCode(text string) string {
	for _, alphabet := range []code.Alphabet{code.Digits, code.Unambiguous} {
		if strings.Trim(text, alphabet.Characters()) == "" && len(text) >= minCodeLength && len(text) <= maxCodeLength {
			return ""
		}
	}
	return "must be 6 to 10 digits, in quotes, or as many of the letters " + code.Unambiguous.Characters()
}

// networkCheck returns a check that accepts a network. If the network is the whole internet, /0,
// the check returns problem.
func networkCheck(problem string) func(string) string {
	return func(text string) string {
		network, wrong := document.ParseNetwork(text)
		if wrong == "" && network.Bits() == 0 {
			return problem
		}
		return wrong
	}
}

// checkMailFrom checks the sender of mails. It returns the problem, or "". The sender must be one
// plain address, with or without a name. The name must be printable.
func checkMailFrom(value string) string {
	const want = "must be one sender such as Shop <no-reply@shop.example>"
	sender, err := mail.ParseAddress(value)
	// ParseAddress drops parentheses outside of quotes as a comment
	if special := ",()"; strings.ContainsAny(value, special) && (err != nil || !strings.ContainsAny(sender.Name, special)) {
		return want + `; a name with a comma or parentheses stands in quotes, as in "Shop (Billing)" <no-reply@shop.example>`
	}
	if err != nil {
		return want
	}
	at := strings.LastIndexByte(sender.Address, '@') // ParseAddress accepts no address without @
	local, domain := sender.Address[:at], sender.Address[at+1:]
	switch {
	case len(sender.Address) > 254 || len(local) > 64: // RFC 5321 section 4.5.3.1
		return "the address is too long"
	case !plainLocalPattern.MatchString(local) || !hostNamePattern.MatchString(domain) || strings.Contains(domain, ".."):
		return want
	case strings.ContainsFunc(sender.Name, document.IsControl):
		return "the name contains a control character"
	}
	return ""
}

// plainLocalPattern matches a dot-atom (RFC 5322 section 3.2.3). It excludes quoted local parts,
// since administrators choose the sender and do not need them.
var plainLocalPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")

// checkTimeZone checks the name of a time zone in the IANA database. It returns the problem, or "".
// It rejects "Local", since the local zone differs between machines.
func checkTimeZone(text string) string {
	_, err := time.LoadLocation(text)
	problem := "there is no time zone " + document.Printable(text) + "; they have names such as Asia/Shanghai"
	return problemIf(err != nil || text == "Local", problem)
}
