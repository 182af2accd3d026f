package delivery

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"maps"
	"net/mail"
	"slices"
	"strings"

	gomail "github.com/wneessen/go-mail"
)

// Rendered is a message as it goes over the wire.
type Rendered struct {
	// From and To are the addresses of MAIL FROM and RCPT TO.
	From, To string
	// UTF8: an address needs SMTPUTF8 (RFC 6531).
	UTF8 bool
	// Content is the mail as it stands between DATA and the final dot.
	Content []byte
	// pooled: Layouts.Release takes it back, to use its memory again.
	pooled bool
}

// maxLine is the longest line that SMTP carries, without its CRLF (RFC 5321 section 4.5.3.1.6).
const maxLine = 998

// render checks the message and builds the mail. Its errors are Rejected: the same message would fail again.
func render(m Message) (*Rendered, *Error) {
	m, err := m.WithTexts()
	if err != nil {
		return nil, &Error{Class: Rejected, Stage: StageMessage, Reason: ReasonTemplate, Err: Problem("the texts cannot be made")}
	}
	from, to, id, problem := m.parseAddresses()
	if problem = cmp.Or(problem, m.checkFieldsWithoutAddresses()); problem != "" {
		return nil, rejectedError(problem)
	}
	var content bytes.Buffer
	content.Grow(1024 + (len(m.Text)+len(m.HTML))*3/2) // grown step by step it was a fifth of what rendering costs
	if _, err := compose(m, from, to, id).WriteTo(&content); err != nil {
		return nil, rejectedError("the message cannot be built")
	}
	if hasLongLine(content.Bytes()) {
		return nil, rejectedError("a header line is too long")
	}
	return &Rendered{
		From: from.Address, To: to.Address,
		UTF8:    !isASCII(from.Address) || !isASCII(to.Address),
		Content: dotStuff(content.Bytes()),
	}, nil
}

func rejectedError(why Problem) *Error { return &Error{Class: Rejected, Stage: StageMessage, Err: why} }

// compose builds the mail: text, then HTML (RFC 2046 section 5.1.4: the best alternative is the last).
func compose(m Message, from, to *mail.Address, id string) *gomail.Msg {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithEncoding(gomail.EncodingQP),
		gomail.WithBoundary(boundary(id)))
	msg.SetGenHeader("From", formatFrom(from))
	msg.ToMailAddress(to)
	msg.SetGenHeader(gomail.HeaderSubject, encodeHeader(m.Subject))
	msg.SetMessageIDWithValue(id)
	msg.SetDateWithValue(m.Date.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834 section 5
	if m.Language != "" {
		msg.SetGenHeader(gomail.HeaderContentLang, m.Language)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Marks)) {
		msg.SetGenHeader(gomail.Header(name), m.Marks[name])
	}
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	return msg
}

// boundary derives the boundary of the parts from the Message-ID, so that two tries have the same bytes. The ID has the send's random ID,
// so no content contains the boundary.
func boundary(id string) string {
	sum := boundarySum(id)
	return hex.EncodeToString(sum[:boundarySize])
}

func hasLongLine(content []byte) bool {
	for line := range bytes.Lines(content) {
		if len(bytes.TrimRight(line, "\r\n")) > maxLine {
			return true
		}
	}
	return false
}

// dotStuff returns a mail as DATA takes it (RFC 5321 section 4.5.2): every line ends with CRLF, and one that begins with a dot
// has a dot more. net/textproto does it too, byte by byte, which took as long as a third of the dialogue.
func dotStuff(mail []byte) []byte {
	out := make([]byte, 0, len(mail)+64)
	for line := range bytes.Lines(mail) {
		if line[0] == '.' {
			out = append(out, '.')
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		out = append(append(out, line...), '\r', '\n')
	}
	return out
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f })
}
