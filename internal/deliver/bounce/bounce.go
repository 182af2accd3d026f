// Package bounce reads mails in which a mail server reports that a mail did not arrive. It
// understands delivery status notifications (RFC 3464), and the older forms of qmail, Exim and
// Gmail. Anybody can write such a mail, so package feedback decides whether a claim counts.
package bounce

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/emersion/go-message"
	"github.com/emersion/go-message/textproto"
)

// These limits apply to reading one mail. Anything beyond them is not read. Real reports on the
// service's mails are far smaller.
const (
	MaxBytes       = 1 << 20
	maxDepth       = 4
	maxParts       = 20
	maxHeaderBytes = 64 << 10
	maxIDs         = 50
	maxRecipients  = 20 // each of our mails has one recipient, and each recipient costs a read of the database
)

// Report has the claims of a mail.
type Report struct {
	// Recipients are those whom the returned mail did not reach, or has not reached yet. It is
	// empty if the mail is not a bounce.
	Recipients []Recipient
	// MessageIDs are the local parts of Message-IDs in the mail, at most maxIDs. One of them may be
	// the returned mail's.
	MessageIDs []string
}

// Recipient has the claim about one recipient.
type Recipient struct {
	// Final and Original are the addresses in Final-Recipient and Original-Recipient, or empty
	// without the field. They differ if the mail was forwarded. If the mail has neither field,
	// Final is an address from elsewhere in the mail, or empty.
	Final, Original string
	Delayed         bool   // true: the server goes on trying; false: it gave up
	Status          string // as in "5.1.1"; empty: not in the mail
	Words           string // why, in the server's words, which may quote an address
}

// Read returns the claims of a mail. If it can't read the mail, the report is empty.
func Read(mail []byte) Report {
	mail = withoutOddLines(mail[:min(len(mail), MaxBytes)])
	e, err := message.ReadWithOptions(bytes.NewReader(mail), &message.ReadOptions{MaxHeaderBytes: maxHeaderBytes})
	if unreadable(err) {
		return Report{}
	}
	r := reader{headerBytesLeft: maxHeaderBytes}
	r.addIDs(e.Header.Header, "In-Reply-To", "References")
	r.walk(e, 1)
	if !r.hasStatus {
		r.readText(e.Header.Header)
	}
	r.addMissingAddresses(e.Header.Header)
	return r.Report
}

var (
	fieldPattern    = regexp.MustCompile(`^([!-9;-~]+)[ \t]*(:.*)$`) // RFC 5322 sections 2.2 and 4.5.8
	boundaryPattern = regexp.MustCompile(`(?i)\bboundary\s*=\s*"?([^"\s;]+)`)
	headersPattern  = regexp.MustCompile(`(?i)^content-type\s*:\s*(?:message/|text/rfc822-headers)`) // matches parts with the headers of a mail
	encodedPattern  = regexp.MustCompile(`(?i)^content-transfer-encoding\s*:\s*(?:base64|quoted-printable)`)
)

// withoutOddLines removes header lines that are not fields, such as the line "From " of a mailbox
// file. A header parser would stop there and miss the fields after it.
func withoutOddLines(mail []byte) []byte {
	separators := map[string]bool{}
	for _, found := range boundaryPattern.FindAllSubmatch(mail, maxParts) {
		separators["--"+string(found[1])] = true
	}
	out := make([]byte, 0, len(mail))
	// inHeader: the line is in a header. isHeadersPart: the part consists of headers. encoded: the
	// part is encoded. mayContinue: the next line may continue a field.
	inHeader, isHeadersPart, encoded, mayContinue := true, false, false, false
	for line := range bytes.Lines(bytes.TrimLeft(bytes.TrimPrefix(mail, []byte("\ufeff")), "\r\n")) {
		text := bytes.TrimRight(line, "\r\n \t")
		found := fieldPattern.FindSubmatch(text)
		switch {
		case separators[string(text)]:
			inHeader, isHeadersPart, encoded, mayContinue = true, false, false, false
		case !inHeader:
		case len(text) == 0:
			inHeader = isHeadersPart && !encoded
			if inHeader && !mayContinue { // a header parser would stop at an empty header
				continue
			}
			mayContinue = false
		case found != nil:
			isHeadersPart, encoded, mayContinue = isHeadersPart || headersPattern.Match(text), encoded || encodedPattern.Match(text), true
			line = append(append(append(make([]byte, 0, len(line)), found[1]...), found[2]...), '\n')
		case !mayContinue || line[0] != ' ' && line[0] != '\t':
			mayContinue = false
			continue
		}
		out = append(out, line...)
	}
	return out
}

// unreadable returns false for an unknown charset or encoding.
func unreadable(err error) bool {
	return err != nil && !message.IsUnknownCharset(err) && !message.IsUnknownEncoding(err)
}

type reader struct {
	Report
	parts, headerBytesLeft int    // parts: how many were read; headerBytesLeft: how many bytes of headers may still be read
	text                   string // the first part of plain text
	returnedTo             string // the recipient in the header of the returned mail
	hasStatus              bool
}

// walk reads an entity and the entities inside it. Of a returned mail, it reads only the header.
func (r *reader) walk(e *message.Entity, depth int) {
	for f := e.Header.Fields(); f.Next(); {
		raw, _ := f.Raw() // fails only for fields that were made by a program, not parsed
		r.headerBytesLeft -= len(raw)
	}
	r.parts++
	if depth > maxDepth || r.parts > maxParts || r.headerBytesLeft < 0 {
		return
	}
	kind, _, _ := strings.Cut(e.Header.Get("Content-Type"), ";") // its parameters may be malformed
	switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
	case "message/delivery-status", "message/global-delivery-status":
		r.readStatus(e.Body)
	case "message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers":
		all, _ := io.ReadAll(bounded(e.Body)) // the text before an error is useful, too
		h, _ := textproto.ReadHeader(bufio.NewReader(bytes.NewReader(withoutOddLines(all))))
		r.addIDs(h, returnedMailFields...)
		r.returnedTo = addressIn(h.Get("To"))
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

// readStatus reads a delivery status: fields of the mail, then a block for each recipient (RFC 3464
// section 2.1).
func (r *reader) readStatus(body io.Reader) {
	text, _ := io.ReadAll(bounded(body)) // the text before an error is useful, too
	for _, block := range statusBlocks(string(text)) {
		r.addIDsIn(block["x-original-message-id"]) // Gmail writes this field
		to := Recipient{
			Final: addressIn(block["final-recipient"]), Original: addressIn(block["original-recipient"]),
			Status: statusPattern.FindString(withoutComments(block["status"])), Words: withoutType(block["diagnostic-code"]),
		}
		action := strings.ToLower(firstWord(block["action"]))
		if to.Status != "" && !slices.Contains(actions, action) {
			action = map[byte]string{'4': "delayed", '5': "failed"}[to.Status[0]]
		}
		r.hasStatus = r.hasStatus || action != ""
		if to.Delayed = action == "delayed"; to.Delayed || action == "failed" {
			r.addRecipient(to)
		}
	}
}

// actions lists the values of the field Action in RFC 3464 section 2.3.3. For any other word, the
// status decides.
var actions = []string{"failed", "delayed", "delivered", "relayed", "expanded"}

// statusPattern finds an enhanced status code (RFC 3463 section 2).
var statusPattern = regexp.MustCompile(`\b[245]\.[0-9]{1,3}\.[0-9]{1,3}\b`)

var statusFieldPattern = regexp.MustCompile(`^[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*:(.*)$`)

// recipientFields occur at most once in the block of a recipient.
var recipientFields = []string{"final-recipient", "original-recipient", "action", "status"}

// statusBlocks returns the blocks of a delivery status, at most 2*maxParts+1, each with its fields
// by names in lower case. Of two fields with one name, the first counts. Lines that are no fields
// are skipped. Some servers write blank lines between the fields of one recipient. A blank line
// therefore ends a block only if the next field is one of recipientFields that the block already
// has, or an address after the action or the status.
func statusBlocks(text string) (blocks []map[string]string) {
	block, last, blank := map[string]string{}, "", false // blank: there was a blank line after the last field
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n") {
		found := statusFieldPattern.FindStringSubmatch(line)
		folded := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "":
			blank, last = true, ""
		case folded && last != "":
			block[last] += " " + strings.TrimSpace(line)
		case found == nil:
			last = ""
		default:
			last = strings.ToLower(found[1])
			_, again := block[last]
			address := strings.HasSuffix(last, "-recipient")
			again = again && slices.Contains(recipientFields, last) || address && block["action"]+block["status"] != ""
			if again && blank && len(blocks) < 2*maxParts {
				blocks, block, blank = append(blocks, block), map[string]string{}, false
			}
			if _, twice := block[last]; twice {
				last = "" // so the lines that continue the field are left out as well
			} else {
				block[last], blank = strings.TrimSpace(found[2]), false
			}
		}
	}
	return append(blocks, block)
}

// addMissingAddresses adds an address to a status that has none. It takes the address from the
// report's field X-Failed-Recipients or from the header of the returned mail. That is safe, because
// each of our mails has one recipient.
func (r *reader) addMissingAddresses(h textproto.Header) {
	failed, _, _ := strings.Cut(h.Get("X-Failed-Recipients"), ",")
	for i, to := range r.Recipients {
		if to.Final == "" && to.Original == "" {
			r.Recipients[i].Final = cmp.Or(addressIn(failed), r.returnedTo)
		}
	}
}

func (r *reader) addRecipient(to Recipient) {
	if len(r.Recipients) < maxRecipients {
		r.Recipients = append(r.Recipients, to)
	}
}

// typePattern finds the type before a value (RFC 3464 section 2.1.2).
var typePattern = regexp.MustCompile(`^[ \t]*[A-Za-z0-9-]+[ \t]*;`)

func withoutType(field string) string {
	return strings.TrimSpace(typePattern.ReplaceAllString(field, ""))
}

// addressIn reads a field such as "rfc822; Ana <ana@example.com> (home)".
func addressIn(field string) string {
	address := withoutType(withoutComments(field))
	if _, named, ok := strings.Cut(address, "<"); ok {
		address, _, _ = strings.Cut(named, ">")
	}
	return strings.Trim(address, "<> \t")
}

// firstWord returns "" for a field without words.
func firstWord(field string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(withoutComments(field)), " ")
	return word
}

// withoutComments removes comments, which may be nested (RFC 5322 section 3.2.2).
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
	if depth > 0 { // a comment without an end is not removed
		return field
	}
	return b.String()
}

// returnedMailFields have the Message-ID in the service's mails. Some servers replace the
// Message-Id of a mail, but keep References and X-Entity-Ref-Id.
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

// qmailOpening begins reports of qmail (cr.yp.to/proto/qsbmf.txt).
const qmailOpening = "Hi. This is "

// withoutBlanks removes the blanks around lines and the empty lines at the beginning, which mail
// programs and gateways add.
func withoutBlanks(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.TrimLeft(strings.Join(lines, "\n"), "\n")
}

// delayWords matches the words in a mail without a delivery status that say that the server keeps
// trying.
var delayWords = regexp.MustCompile(`(?i)delayed|not yet been delivered|will be retried|continue to try|warning message only`)

// readText finds the recipients and the reasons in the text of a mail without a delivery status.
// The returned mail follows as another part, or after a line of hyphens. readText finds recipients
// only in a report of qmail, or if the mail has a field X-Failed-Recipients. An auto-reply has
// neither.
func (r *reader) readText(h textproto.Header) {
	text, returned, complete := strings.Cut(r.text, "\n--")
	if !complete && r.parts == 1 { // the text may include the returned mail, whose code must not get into Words
		return
	}
	if plain := withoutBlanks(text); strings.HasPrefix(plain, qmailOpening) {
		for paragraph := range strings.SplitSeq(plain, "\n\n") {
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
