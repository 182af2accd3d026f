package delivery

import (
	_ "embed"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

// maxReplyBytes bounds the part of a reply that is parsed, and maxReplyRunes bounds the redacted
// text.
const (
	maxReplyBytes = 4096
	maxReplyRunes = 400
)

const omissionMark = "…" // for the parts of a reply that were left out

// replyWords may be logged, because servers explain refusals with them. Any other word may be a
// name.
var replyWords = func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(replyWordList) {
		all[word] = true
	}
	return all
}()

//go:embed reply_words.txt
var replyWordList string

// PrivateData must not appear in a log. A server may quote it in its reply.
type PrivateData struct {
	To      string   // address of the recipient
	Content string   // code and support reference, or texts of the message with them
	Login   []string // user name and password
}

// RedactReply returns the part of a server's reply that may be logged, as one line of at most 400
// characters: known words, statuses, IP addresses, hosts under a public suffix, short identifiers
// of large providers, and URLs without their query. Any other word becomes "…", and so does a part
// that may be private. So addresses, local parts, names, codes and long numbers are left out, even
// if the server wrote them in another form. Without a word or URL, the result is "".
func RedactReply(text string, p PrivateData) string {
	if len(text) > maxReplyBytes {
		text = text[:maxReplyBytes]
	}
	pieces := p.privatePieces()
	var words []string
	hasWord := false
	for token := range strings.FieldsSeq(text) {
		safe, word := p.redactToken(token, pieces)
		if safe == omissionMark && len(words) > 0 && words[len(words)-1] == omissionMark {
			continue
		}
		words, hasWord = append(words, safe), hasWord || word
	}
	for i := range max(0, len(words)-1) { // a code in two groups
		pair := strings.Trim(words[i], replyPunctuation) + strings.Trim(words[i+1], replyPunctuation)
		if longCodePattern.MatchString(pair) && strings.Contains(p.Content, pair) {
			words[i], words[i+1] = omissionMark, omissionMark
		}
	}
	if !hasWord {
		return ""
	}
	return shortenReply(strings.Join(words, " "))
}

func shortenReply(line string) string {
	if all := []rune(line); len(all) > maxReplyRunes {
		return string(all[:maxReplyRunes-1]) + omissionMark
	}
	return line
}

const maxBurstWords = 160 // bytes of NormalizeReply's result

// NormalizeReply returns the status codes and the redacted words of a reply in a form that is the
// same for all recipients: without omission marks, hosts, URLs, numbers and identifiers. The
// service compares this form to notice that many recipients are suppressed for the same reply in a
// short time.
func NormalizeReply(codes, redacted string) string {
	words := codes
	for token := range strings.FieldsSeq(strings.ToLower(redacted)) {
		word := strings.Trim(token, replyPunctuation+omissionMark)
		if word == "" || strings.ContainsAny(word, "0123456789./=@"+omissionMark) {
			continue
		}
		words += " " + word
		if len(words) > maxBurstWords {
			words = strings.ToValidUTF8(words[:maxBurstWords], "")
			break
		}
	}
	return strings.TrimSpace(words)
}

var (
	replyURLPattern    = regexp.MustCompile(`(?i)https?://[^\s<>"'()\[\]{}]+|www\.[^\s<>"'()\[\]{}]+`)
	replyStatusPattern = regexp.MustCompile(`^#?(?:[0-9]{1,3}|[245]\.[0-9]{1,3}\.[0-9]{1,3})$`)
	// postmasterCodePattern matches identifiers of Microsoft, Yahoo, Orange, 163.com, Barracuda and
	// others, by which their postmasters can look up the reason of a refusal.
	postmasterCodePattern = regexp.MustCompile(
		`^(?:S[0-9]{3,5}|AS\(?[0-9]{3,9}|(?:OU|SC|DY|RP|CS|BL|GL|PH)-?[0-9]{2,6}|(?:IP)?TS{1,2}[0-9]{2}|VS[0-9]{1,2}-[A-Z]{2}|RFC[0-9]{4}|` +
			`(?:OFR|LPN)[0-9]{0,3}_[0-9]{3}|[A-Z]{2,4}:[A-Z]{2,4}|BSF_[A-Z]{2,3}[0-9]{0,2}_[A-Z]{2}[0-9]{3})$`)
	longCodePattern   = regexp.MustCompile(`^[0-9]{4,}$`)
	longNumberPattern = regexp.MustCompile(`[0-9]{7}`)
)

const replyPunctuation = `.,;:!?()[]{}<>"'` + "`"

// redactToken puts omissionMark in place of each part that may be private. word is true if a word
// or a URL remains.
func (p PrivateData) redactToken(token string, pieces []string) (safe string, word bool) {
	if at := replyURLPattern.FindStringIndex(token); at != nil {
		safe = p.redactURL(strings.TrimRight(token[at[0]:at[1]], replyPunctuation), pieces)
		return safe, safe != omissionMark
	}
	bare := strings.Trim(token, replyPunctuation)
	lower := strings.ToLower(bare)
	if bare == "" || containsPrivate(lower, pieces) {
		return omissionMark, false
	}
	if _, err := netip.ParseAddr(bare); err == nil || replyStatusPattern.MatchString(bare) {
		return token, false
	}
	reason := postmasterCodePattern.MatchString(bare) && !p.mayHoldCode(lower)
	if reason || isPublicHostName(lower) || replyWords[strings.ReplaceAll(lower, "'", "")] {
		return token, true
	}
	return omissionMark, false
}

// mayHoldCode reports whether an identifier in lower case may contain a code of the message: a part
// of it, or all of it without punctuation, is at least minCodeLength long and appears in the
// message.
func (p PrivateData) mayHoldCode(lower string) bool {
	const minCodeLength = 4
	content := strings.ToLower(p.Content)
	words := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	numbers := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsDigit(r) })
	return slices.ContainsFunc(slices.Concat(words, numbers, []string{strings.Join(words, "")}), func(part string) bool {
		return len(part) >= minCodeLength && !replyWords[part] && strings.Contains(content, part)
	})
}

// isPublicHostName reports whether a token is a host under a public suffix, such as
// zen.spamhaus.org.
func isPublicHostName(token string) bool {
	if !strings.Contains(token, ".") || strings.ContainsFunc(token, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}) || longNumberPattern.MatchString(token) {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(token)
	return icann && suffix != token && !strings.HasPrefix(token, ".")
}

// redactURL returns scheme, host and path, or omissionMark if the host may be private. It leaves
// out parts of the path that may be an encoded address, a number or a token.
func (p PrivateData) redactURL(text string, pieces []string) string {
	if strings.HasPrefix(strings.ToLower(text), "www.") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" || !isPublicHostName(strings.ToLower(u.Hostname())) ||
		containsPrivate(strings.ToLower(u.Hostname()), pieces) {
		return omissionMark
	}
	safe := strings.ToLower(u.Scheme + "://" + u.Host)
	for part := range strings.SplitSeq(strings.TrimPrefix(u.EscapedPath(), "/"), "/") {
		if !p.isSafePathPart(part, pieces) {
			part = omissionMark
		}
		safe += "/" + part
	}
	safe = strings.TrimSuffix(safe, "/")
	switch {
	case u.RawQuery == "" && replyStatusPattern.MatchString(u.Fragment) && p.isSafePathPart(u.Fragment, pieces):
		safe += "#" + u.Fragment // as Mimecast names a reason
	case u.RawQuery != "" || u.Fragment != "":
		safe += "?" + omissionMark
	}
	return safe
}

// isSafePathPart is true for an IP address, and for short words and numbers.
func (p PrivateData) isSafePathPart(part string, pieces []string) bool {
	if _, err := netip.ParseAddr(part); err == nil {
		return true
	}
	if containsPrivate(strings.ToLower(part), pieces) || strings.ContainsFunc(part, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.~", r)
	}) {
		return false
	}
	for word := range strings.FieldsFuncSeq(part, func(r rune) bool { return strings.ContainsRune("-_.~", r) }) {
		digits := strings.ContainsAny(word, "0123456789")
		if len(word) > 20 || digits && len(word) > 8 || longNumberPattern.MatchString(word) || p.mayHoldCode(strings.ToLower(word)) {
			return false
		}
	}
	return true
}

// privatePieces returns the texts, in lower case, by which a reply may name the recipient or the
// login.
func (p PrivateData) privatePieces() (all []string) {
	local := strings.ToLower(p.To)
	if at := strings.LastIndexByte(local, '@'); at >= 0 {
		all = append(all, local)
		local = local[:at]
	}
	local = strings.Trim(local, `"`)
	base, _, _ := strings.Cut(local, "+")
	all = append(all, local, base, strings.ReplaceAll(base, ".", ""))
	all = append(all, strings.FieldsFunc(local,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })...)
	for _, secret := range p.Login {
		all = append(all, strings.Fields(strings.ToLower(secret))...)
	}
	return slices.DeleteFunc(all, func(piece string) bool { return piece == "" })
}

// maxWholeWordPiece is the length up to which a piece is found only as a whole word. A short piece
// such as "an" is also a part of many other words.
const maxWholeWordPiece = 3

// containsPrivate reports whether a text in lower case contains one of the pieces, or a character
// of addresses or URL parameters, which may be a part of an encoded or tagged address.
func containsPrivate(lower string, pieces []string) bool {
	if strings.ContainsAny(lower, "@＠%=&+") {
		return true
	}
	words := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(pieces, func(piece string) bool {
		return lower == piece || slices.Contains(words, piece) ||
			len(piece) > maxWholeWordPiece && strings.Contains(lower, piece)
	})
}
