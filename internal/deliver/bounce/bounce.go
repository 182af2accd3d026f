// Package bounce reads mails in which a mail server reports that a mail did not arrive. It
// understands delivery status notifications (RFC 3464), and the older forms of qmail, Exim and
// Gmail. The package returns the claims of such a mail. Anybody can write such a mail, so package
// feedback decides whether a claim counts.
package bounce

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/emersion/go-message"
	"github.com/emersion/go-message/textproto"
)

// The limits for reading one mail. The part of a mail beyond a limit is not read. Real reports on
// the service's mails are far smaller than these limits.
const (
	MaxBytes       = 1 << 20
	maxDepth       = 4
	maxParts       = 20
	maxHeaderBytes = 64 << 10
	maxIDs         = 50
	maxRecipients  = 20 // each of our mails has one recipient, and each recipient costs a read of the database
)

// Report is the claim of a mail.
type Report struct {
	// Recipients are the recipients that the returned mail did not reach, or has not reached yet.
	// If Recipients is empty, the mail is not a bounce.
	Recipients []Recipient
	// MessageIDs are the local parts of all Message-IDs in the mail. One of them may belong to the
	// returned mail.
	MessageIDs []string
}

// Recipient is the claim of a mail about one recipient.
type Recipient struct {
	// Final is the address in the field Final-Recipient, and Original is the address in the field
	// Original-Recipient. An address is empty if the mail lacks the field. The two addresses differ
	// if the mail was forwarded.
	Final, Original string
	Delayed         bool   // true: the server goes on trying; false: it gave up
	Status          string // as in "5.1.1"; empty: not in the mail
	Words           string // why, in the server's words, which may quote an address
}

// Read returns what a bounce says about a returned mail. A mail that cannot be read is treated as
// if it were not a bounce.
func Read(mail []byte) Report {
	mail = withoutOddLines(mail[:min(len(mail), MaxBytes)])
	e, err := message.ReadWithOptions(bytes.NewReader(mail), &message.ReadOptions{MaxHeaderBytes: maxHeaderBytes})
	if unreadable(err) {
		return Report{}
	}
	r := reader{header: maxHeaderBytes}
	r.addIDs(e.Header.Header, "In-Reply-To", "References")
	r.walk(e, 1)
	if !r.hasStatus {
		r.readText(e.Header.Header)
	}
	return r.Report
}

var (
	fieldPattern    = regexp.MustCompile(`^([!-9;-~]+)[ \t]*(:.*)$`) // RFC 5322 sections 2.2 and 4.5.8
	boundaryPattern = regexp.MustCompile(`(?i)\bboundary\s*=\s*"?([^"\s;]+)`)
	headersPattern  = regexp.MustCompile(`(?i)^content-type\s*:\s*(?:message/|text/rfc822-headers)`) // of parts that are headers
)

// withoutOddLines returns a mail without the header lines that are not fields, such as the line
// "From " of a mailbox file. A header parser would stop at such a line and miss the fields after
// it.
func withoutOddLines(mail []byte) []byte {
	separators := map[string]bool{}
	for _, found := range boundaryPattern.FindAllSubmatch(mail, maxParts) {
		separators["--"+string(found[1])] = true
	}
	out := make([]byte, 0, len(mail))
	header, headers, field := true, false, false // the line is in a header; the part has only headers; the line may continue a field
	for line := range bytes.Lines(bytes.TrimLeft(bytes.TrimPrefix(mail, []byte("\ufeff")), "\r\n")) {
		text := bytes.TrimRight(line, "\r\n \t")
		found := fieldPattern.FindSubmatch(text)
		switch {
		case separators[string(text)]:
			header, headers, field = true, false, false
		case !header:
		case len(text) == 0:
			header = headers
			if headers && !field { // an empty header would end the reading
				continue
			}
			field = false
		case found != nil:
			headers, field = headers || headersPattern.Match(text), true
			line = append(append(append(make([]byte, 0, len(line)), found[1]...), found[2]...), '\n')
		case !field || line[0] != ' ' && line[0] != '\t':
			field = false
			continue
		}
		out = append(out, line...)
	}
	return out
}

// unreadable reports whether err means that an entity cannot be read. An entity in an unknown
// charset or encoding can be read.
func unreadable(err error) bool {
	return err != nil && !message.IsUnknownCharset(err) && !message.IsUnknownEncoding(err)
}

type reader struct {
	Report
	parts, header int    // parts that were read; bytes of headers that still may be
	text          string // the first part of plain text
	hasStatus     bool
}

// walk reads an entity and the entities inside it. If an entity is a returned mail, walk reads only
// its header.
func (r *reader) walk(e *message.Entity, depth int) {
	for f := e.Header.Fields(); f.Next(); {
		raw, _ := f.Raw() // fails only for fields that were made and not read
		r.header -= len(raw)
	}
	r.parts++
	if depth > maxDepth || r.parts > maxParts || r.header < 0 {
		return
	}
	kind, _, _ := strings.Cut(e.Header.Get("Content-Type"), ";") // whatever its parameters are
	switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
	case "message/delivery-status", "message/global-delivery-status":
		r.readStatus(e.Body)
	case "message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers":
		h, _ := textproto.ReadHeader(bounded(e.Body)) // the fields before a malformed line are of use
		r.addIDs(h, returnedMailFields...)
	case "", "text/plain":
		if r.text == "" {
			text, _ := io.ReadAll(bounded(e.Body))
			r.text = strings.ReplaceAll(string(text), "\r", "")
		}
	}
	parts := e.MultipartReader()
	for parts != nil && r.parts < maxParts {
		part, err := parts.NextPart()
		if unreadable(err) {
			return
		}
		r.walk(part, depth+1)
	}
}

func bounded(body io.Reader) *bufio.Reader {
	return bufio.NewReader(io.LimitReader(body, maxHeaderBytes))
}

// readStatus reads the fields of a delivery status: first the fields of the mail, then a block for
// each recipient (RFC 3464 section 2.1).
func (r *reader) readStatus(body io.Reader) {
	in := bounded(body)
	for range 2 * maxParts {
		h, err := textproto.ReadHeader(in)
		r.addIDs(h, "X-Original-Message-Id") // of Gmail
		action, status := strings.ToLower(firstWord(h.Get("Action"))), firstWord(h.Get("Status"))
		if action == "" && status != "" {
			action = map[byte]string{'4': "delayed", '5': "failed"}[status[0]]
		}
		r.hasStatus = r.hasStatus || action != ""
		if action == "failed" || action == "delayed" {
			r.addRecipient(Recipient{
				Final:    addressIn(h.Get("Final-Recipient")),
				Original: addressIn(h.Get("Original-Recipient")), Delayed: action == "delayed", Status: status,
				Words: withoutType(h.Get("Diagnostic-Code")),
			})
		}
		if err != nil {
			return
		}
	}
}

// addRecipient adds a recipient, unless there are maxRecipients already.
func (r *reader) addRecipient(to Recipient) {
	if len(r.Recipients) < maxRecipients {
		r.Recipients = append(r.Recipients, to)
	}
}

// typePattern is the type before a value (RFC 3464 section 2.1.2).
var typePattern = regexp.MustCompile(`^[ \t]*[A-Za-z0-9-]+[ \t]*;`)

func withoutType(field string) string {
	return strings.TrimSpace(typePattern.ReplaceAllString(field, ""))
}

// addressIn returns the address in a field such as "rfc822; Ana <ana@example.com> (home)".
func addressIn(field string) string {
	address := withoutType(withoutComments(field))
	if _, named, ok := strings.Cut(address, "<"); ok {
		address, _, _ = strings.Cut(named, ">")
	}
	return strings.Trim(address, "<> \t")
}

// firstWord returns the first word of a field; "": it has none.
func firstWord(field string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(withoutComments(field)), " ")
	return word
}

// withoutComments returns a field without comments, which may be nested (RFC 5322 section 3.2.2).
func withoutComments(field string) string {
	var b strings.Builder
	depth, quoted, escaped := 0, false, false
	for _, c := range field {
		switch {
		case escaped, c == '\\':
			escaped = !escaped
		case c == '"' && depth == 0:
			quoted = !quoted
		case c == '(' && !quoted:
			depth++
		case c == ')' && depth > 0:
			depth--
			continue
		}
		if depth == 0 {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// returnedMailFields are the header fields in which the service's mails have the Message-ID. Some
// servers replace the Message-ID of a mail, but they keep the last two fields.
var returnedMailFields = []string{"Message-Id", "References", "X-Entity-Ref-Id"}

var messageIDPattern = regexp.MustCompile(`([A-Za-z0-9.-]{1,72})@`)

func (r *reader) addIDs(h textproto.Header, fields ...string) {
	for _, name := range fields {
		r.addIDsIn(strings.Join(h.Values(name), " "))
	}
}

func (r *reader) addIDsIn(text string) {
	for _, m := range messageIDPattern.FindAllStringSubmatch(text, maxIDs-len(r.MessageIDs)) {
		r.MessageIDs = append(r.MessageIDs, strings.TrimPrefix(m[1], "thread-"))
	}
}

// qmailOpening begins the mails of qmail (cr.yp.to/proto/qsbmf.txt).
const qmailOpening = "Hi. This is "

// delayWords matches words which say that the server continues to try. It is used for mails without
// a delivery status.
var delayWords = regexp.MustCompile(`(?i)delayed|not yet been delivered|will be retried|continue to try|warning message only`)

// readText reads a mail without a delivery status. It finds the recipients and the reasons in the
// text of the mail. The returned mail follows as another part, or after a line of hyphens. readText
// finds a recipient only in a report of qmail or with a field X-Failed-Recipients. An auto-reply
// has neither, so readText finds no recipient in it.
func (r *reader) readText(h textproto.Header) {
	text, returned, complete := strings.Cut(r.text, "\n--")
	if !complete && r.parts == 1 { // the part may be the returned mail; its code must not be read as a reason
		return
	}
	if strings.HasPrefix(text, qmailOpening) {
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			if address, words, ok := strings.Cut(strings.TrimSpace(paragraph), ">:\n"); ok {
				r.addRecipient(Recipient{Final: addressIn(address), Words: words})
			}
		}
	}
	failed, delayed := strings.SplitN(strings.Join(h.Values("X-Failed-Recipients"), ","), ",", maxRecipients+1),
		delayWords.MatchString(text)
	for _, address := range failed[:min(len(failed), maxRecipients)] {
		address = addressIn(address)
		if _, words, ok := strings.Cut(text, address); ok && address != "" {
			r.addRecipient(Recipient{Final: address, Words: words, Delayed: delayed})
		}
	}
	r.addIDsIn(returned)
}
