package delivery

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"time"
)

// unfilledMail is the form of mails that differ only in fill and token. Texts returns the texts of
// one mail. fill is the code followed by the support reference, and token is the end of a link.
// MailEncoder compares forms with ==. Implementation: message.unfilledMail.
type unfilledMail interface {
	Texts(fill, token string) (subject, text, html string, err error)
}

// MailEncoder encodes mails for SMTP. It keeps the encoded parts of each form with placeholders for
// the code and the link, so for most mails it only replaces the placeholders. The zero value is
// ready for use, and safe for concurrent use.
type MailEncoder struct {
	mu      sync.RWMutex
	cached  map[sharedPartsKey]*sharedParts // if an entry is nil, mails with its key are encoded one by one
	buffers sync.Pool                       // its values are *RenderedMail
}

// sharedPartsKey has everything on which sharedParts depend.
type sharedPartsKey struct {
	form   unfilledMail
	fields SharedFields
	fill   int // length of Mail.Fill, in bytes
	token  int // length of Mail.Token
}

// maxKeptParts bounds the forms whose encoded parts are kept. The parts of one form need about 7
// KB.
const maxKeptParts = 512

// sharedParts holds the parts that all mails of one form have in common.
type sharedParts struct {
	from       string      // address of MAIL FROM
	head       encodedPart // the fields that do not depend on the recipient
	text, html encodedPart
}

type encodedPart struct {
	content      []byte
	placeholders []int // their offsets in content
}

// placeholderCharacters replace the characters of fill while a form is encoded. Templates and
// settings contain no control characters. None of the placeholders is white space, because
// templates trim white space.
const placeholderCharacters = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

// tokenPlaceholder replaces each character of a token in the bodies of a form. It needs no escape
// in a URL (RFC 3986 section 2.3). Headers have no placeholders for a token, because a sender's
// address may contain "~". A mail is encoded without placeholders if its body has another "~" or
// only a part of the token, or if its subject has the token.
const tokenPlaceholder = '~'

// Encode checks and encodes a mail. Its error is always Rejected, because another attempt would
// fail, too.
func (e *MailEncoder) Encode(m Mail) (*RenderedMail, *Error) {
	to, id, problem := m.checkRecipientFields()
	if problem != "" {
		return nil, rejectedError(problem)
	}
	p, fail := e.partsOf(m)
	if fail != nil {
		return nil, fail
	}
	r, _ := e.buffers.Get().(*RenderedMail)
	if r == nil {
		r = &RenderedMail{}
	}
	r.From, r.To, r.UTF8 = p.from, to, !isASCII(p.from) || !isASCII(to)
	r.Content = p.appendMail(r.Content[:0], m, to, id)
	r.Message = m
	r.Private = PrivateData{To: to, Content: cmp.Or(m.Fill, m.Text)}
	return r, nil
}

// Release gives the memory of r back to the encoder, for another mail. The caller must not use r
// afterwards. r may be nil.
func (e *MailEncoder) Release(r *RenderedMail) {
	if r != nil {
		e.buffers.Put(r)
	}
}

// partsOf returns the encoded parts of a mail's form, which it encodes once. If placeholders don't
// work for the form or for the code, it encodes this mail alone.
func (e *MailEncoder) partsOf(m Mail) (*sharedParts, *Error) {
	key := sharedPartsKey{m.Form, m.SharedFields, len(m.Fill), len(m.Token)}
	e.mu.RLock()
	known, ok := e.cached[key]
	e.mu.RUnlock()
	plain := isLettersDigitsHyphens(m.Fill) && len(m.Fill) <= len(placeholderCharacters)
	if known != nil && plain {
		return known, nil
	}
	filled, err := m.WithTexts()
	if err != nil {
		return nil, &Error{
			Class: Rejected, Stage: StagePrepare, About: AboutUs, Reason: ReasonTemplate,
			Err: SafeError("the texts cannot be rendered"),
		}
	}
	from, problem := filled.checkSharedFields()
	if problem != "" {
		return nil, rejectedError(problem)
	}
	if m.Form != nil && plain && !ok {
		known = partsWithPlaceholders(m, filled, from)
		e.keepParts(key, known)
	}
	if known != nil && plain {
		return known, nil
	}
	p, problem := encodeSharedParts(filled, from)
	if problem != "" {
		return nil, rejectedError(problem)
	}
	return p, nil
}

func (e *MailEncoder) keepParts(key sharedPartsKey, p *sharedParts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cached == nil || len(e.cached) >= maxKeptParts {
		e.cached = map[sharedPartsKey]*sharedParts{}
	}
	e.cached[key] = p
}

// partsWithPlaceholders returns the encoded parts of a form, or nil if filling them would not give
// the texts of the mail, for example because a template escapes the code or has a condition on it.
func partsWithPlaceholders(m, filled Mail, from *mail.Address) *sharedParts {
	fill, token := m.Fill, m.Token
	m.Fill, m.Token = placeholderCharacters[:len(fill)], strings.Repeat(string(tokenPlaceholder), len(token))
	m, err := m.WithTexts()
	for _, part := range []struct{ got, want, token string }{
		{m.Subject, filled.Subject, ""}, {m.Text, filled.Text, token}, {m.HTML, filled.HTML, token},
	} {
		out := []byte(part.got)
		fillPlaceholders(out, findPlaceholders(out, fill, part.token), fill, part.token)
		if err != nil || string(out) != part.want {
			return nil
		}
	}
	p, problem := encodeSharedParts(m, from)
	if problem != "" {
		return nil
	}
	for _, body := range []*encodedPart{&p.text, &p.html} {
		for _, b := range []byte(placeholderCharacters[:len(fill)]) {
			body.content = bytes.ReplaceAll(body.content, fmt.Appendf(nil, "=%02X", b), []byte{b})
		}
		body.placeholders = findPlaceholders(body.content, fill, token)
	}
	p.head.placeholders = findPlaceholders(p.head.content, fill, "")
	return p
}

// findPlaceholders returns the offsets of the placeholders for fill and, unless it is "", for
// token.
func findPlaceholders(text []byte, fill, token string) (offsets []int) {
	for at, b := range text {
		if strings.IndexByte(placeholderCharacters[:len(fill)], b) >= 0 || b == tokenPlaceholder && token != "" {
			offsets = append(offsets, at)
		}
	}
	return offsets
}

// fillPlaceholders writes fill and token over their placeholders in text.
func fillPlaceholders(text []byte, placeholders []int, fill, token string) {
	next := 0 // index in token
	for _, at := range placeholders {
		if text[at] == tokenPlaceholder {
			text[at], next = token[next], (next+1)%len(token)
		} else {
			text[at] = fill[strings.IndexByte(placeholderCharacters, text[at])]
		}
	}
}

func (e encodedPart) appendFilled(out []byte, m Mail) []byte {
	start := len(out)
	out = append(out, e.content...)
	fillPlaceholders(out[start:], e.placeholders, m.Fill, m.Token)
	return out
}

// NoAutoResponses asks Exchange for no automatic answers but bounces (MS-OXCMAIL 2.1.3.2.20).
const NoAutoResponses = "DR, RN, NRN, OOF, AutoReply"

// encodeSharedParts returns the problem of the fields as its second result, or "".
func encodeSharedParts(m Mail, from *mail.Address) (*sharedParts, SafeError) {
	head := appendField(nil, "From", formatFrom(from))
	head = appendField(head, "Subject", encodeHeader(m.Subject))
	head = appendField(head, "Auto-Submitted", "auto-generated") // RFC 3834 section 5
	head = appendField(head, "X-Auto-Response-Suppress", NoAutoResponses)
	if m.Language != "" {
		head = appendField(head, "Content-Language", m.Language)
	}
	head = appendField(head, "MIME-Version", "1.0")
	for line := range bytes.Lines(head) {
		if len(line) > maxLine+len("\r\n") {
			return nil, "a header line is too long"
		}
	}
	return &sharedParts{from.Address, encodedPart{content: head}, encodeBody(m.Text), encodeBody(m.HTML)}, ""
}

// encodeBody returns quoted-printable (RFC 2045 section 6.7) in which every line ends with CRLF.
func encodeBody(text string) encodedPart {
	var quoted bytes.Buffer
	w := quotedprintable.NewWriter(&quoted)
	_, _ = w.Write([]byte(text)) // writing to a Buffer never fails
	_ = w.Close()
	var out []byte
	for line := range bytes.Lines(quoted.Bytes()) {
		out = append(append(out, bytes.TrimRight(line, "\r\n")...), '\r', '\n')
	}
	return encodedPart{content: out}
}

// appendField folds the field at spaces where a line would be longer than 76 characters (RFC 5322
// section 2.2.3).
func appendField(out []byte, name, value string) []byte {
	out = append(append(out, name...), ':')
	length := len(name) + len(":")
	for word := range strings.SplitSeq(value, " ") {
		if length > len(name)+len(":") && word != "" && length+len(" ")+len(word) > maxFoldedLine {
			out, length = append(out, '\r', '\n'), 0
		}
		out = append(append(out, ' '), word...)
		length += len(" ") + len(word)
	}
	return append(out, '\r', '\n')
}

// appendMail writes the text before the HTML, because the best alternative must be last (RFC 2046
// section 5.1.4).
//
// References and X-Entity-Ref-ID contain the ID of the send, so that Gmail shows each send as its
// own thread. Otherwise Gmail would put mails with the same subject into one thread and hide the
// newer code.
func (p *sharedParts) appendMail(out []byte, m Mail, to, id string) []byte {
	const textHead = "Content-Transfer-Encoding: quoted-printable\r\nContent-Type: text/plain; charset=UTF-8\r\n\r\n"
	const htmlHead = "Content-Transfer-Encoding: quoted-printable\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n"
	out = m.Date.UTC().AppendFormat(append(out, "Date: "...), time.RFC1123Z)
	out = append(append(append(out, "\r\nMessage-ID: <"...), id...), ">\r\nReferences: <thread-"...)
	out = append(append(append(out, id...), ">\r\nX-Entity-Ref-ID: "...), id...)
	out = append(append(append(out, "\r\nTo: <"...), to...), ">\r\n"...)
	if len(m.IDHeaders) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.IDHeaders)) {
			out = appendField(out, name, m.IDHeaders[name])
		}
	}
	out = p.head.appendFilled(out, m)
	if len(p.html.content) == 0 {
		return p.text.appendFilled(append(out, textHead...), m)
	}
	boundary := boundaryOf(id)
	out = append(append(append(out, "Content-Type: multipart/alternative; boundary="...), boundary[:]...),
		"\r\n\r\n--"...)
	out = append(append(append(out, boundary[:]...), "\r\n"...), textHead...)
	out = append(append(append(p.text.appendFilled(out, m), "\r\n--"...), boundary[:]...), "\r\n"...)
	out = p.html.appendFilled(append(out, htmlHead...), m)
	return append(append(append(out, "\r\n--"...), boundary[:]...), "--\r\n"...)
}

// boundaryOf derives the boundary between the parts from the Message-ID, so that a mail that is
// encoded again has the same bytes. The Message-ID contains the random ID of the send, so no text
// of a mail contains the boundary.
func boundaryOf(id string) (boundary [48]byte) {
	const label = "boundary of "
	var text [len(label) + maxAddress]byte
	sum := sha256.Sum256(append(append(text[:0], label...), id...))
	hex.Encode(boundary[:], sum[:len(boundary)/2])
	return boundary
}
