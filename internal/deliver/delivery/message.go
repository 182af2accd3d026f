// Package delivery has what the ways of sending a message share: the mail to send, the mail
// rendered to bytes, the result of an accepted message, the error of a message that was not
// accepted, and the circuit breaker. Package [sendcode/internal/deliver/delivery/mailserver] sends
// mails. Without a mail server, [sendcode/internal/deliver/delivery/mailbox] receives mails on the
// same machine. Package sms sends text messages.
//
// The parts that mails with the same [Mail].Form share are encoded once. The recipient, the ID, the
// date and the code are written into each mail.
package delivery

import (
	"net/mail"
	"slices"
	"strings"
	"time"
)

// SimulatorDomain is the domain of recipients for whom package mailbox simulates outcomes, such as
// a bounce. The domain is reserved (RFC 6761 section 6.2), so no person has an address in it.
const SimulatorDomain = "simulator.test"

// Mail is one mail. A MailEncoder renders it before a connection is opened, and every mail server
// that is tried gets the same rendered mail.
type Mail struct {
	// MessageID is "<send id>.<HMAC>@<sending domain>", without angle brackets around it.
	MessageID string
	SharedFields
	// To is an address without a name. A non-ASCII local part needs a server with SMTPUTF8 (RFC
	// 6531). A non-ASCII domain does not, because it is sent as an A-label.
	To string
	// Subject is one line of any UTF-8.
	Subject string
	// Text is the plain part and is required. HTML is its alternative, or empty.
	Text, HTML string
	// Form makes the texts if it is set. Then Subject, Text and HTML are empty. Fill is the code
	// and the support reference, and Token is the end of a link.
	Form        unfilledMail
	Fill, Token string
	// IDHeaders are further headers with the send's ID, for providers that replace the Message-ID.
	IDHeaders map[string]string
	// Date becomes the Date header, in UTC, whole seconds.
	Date time.Time
	// Stranger is true if anyone may have chosen the recipient, perhaps one whose server refuses
	// RCPT or DATA, or answers slowly. So package smtp attributes most Temporary failures at RCPT
	// or later to the recipient (dependsOnRecipient).
	Stranger bool
	// Used has the names of the servers that earlier mails with the same code used, as in
	// Result.Provider. Other servers that work are tried before them. AcceptedBy has the names of
	// the servers in Used that accepted a mail.
	Used, AcceptedBy []string
}

// UnusedFirst moves each healthy element whose name is not in used to the front, and otherwise
// keeps the order.
func UnusedFirst[T any](all []T, used []string, name func(T) string, isWell func(T) bool) []T {
	if len(used) == 0 {
		return all
	}
	var first, last []T
	for _, one := range all {
		if !slices.Contains(used, name(one)) && isWell(one) {
			first = append(first, one)
		} else {
			last = append(last, one)
		}
	}
	return append(first, last...)
}

// SharedFields may be the same in all mails of a form. A [MailEncoder] keeps encoded parts for each
// combination of a form and SharedFields. TestEverySharedFieldIsSent fails if a field may contain a
// line break, or if a field is missing in mails by SMTP or by an HTTP API.
type SharedFields struct {
	// From is "Name <addr>" as configured. Its address is also the envelope's sender, so that
	// bounces come back.
	From string
	// Language is a BCP 47 tag and becomes Content-Language; may be empty.
	Language string
}

// WithTexts sets the Subject, Text and HTML that the Form makes, if there is one. The error is that
// of Form.Texts.
func (m Mail) WithTexts() (filled Mail, err error) {
	if m.Form != nil {
		m.Subject, m.Text, m.HTML, err = m.Form.Texts(m.Fill, m.Token)
	}
	return m, err
}

// Result says which mail server or carrier accepted a message, and how. With an error, Provider is
// the server or carrier that was tried last, and the other fields but Took may be empty.
type Result struct {
	// Provider is the host of the mail server, or host:port if another server has the same host, or
	// the configured name of the carrier; empty if none was tried.
	Provider string
	// CarrierID is the carrier's ID of the message; empty for mails, and if the carrier gave none.
	CarrierID string
	// ReplyCodes are as [FormatReplyCodes] writes them, such as "250 2.0.0".
	ReplyCodes string
	// Took includes the wait for a connection.
	Took time.Duration
}

// RenderedMail is a checked and encoded mail, for every kind of mail server.
type RenderedMail struct {
	// Message is for servers that accept texts instead of MIME.
	Message Mail
	// From and To are the envelope's addresses, with the domains as A-labels.
	From, To string
	// UTF8 is true if From or To has a non-ASCII local part. Then the server must offer SMTPUTF8
	// (RFC 6531).
	UTF8 bool
	// Content is the mail (RFC 5322), in which every line ends with CRLF.
	Content []byte
	// Private must not appear in a log, although a reply of the server may quote it.
	Private PrivateData
	// OtherIsFree, if not nil, reports whether another server is up and will be tried next. Then
	// the attempt gives up a silent server earlier.
	OtherIsFree func() bool
}

// FromHeader returns "Name <address>" in plain UTF-8, with the domain as A-labels, for mail servers
// that write the From header themselves.
func (r *RenderedMail) FromHeader() string {
	from, err := mail.ParseAddress(r.Message.From)
	if err != nil || from.Name == "" { // err is nil: Encode has parsed From
		return r.From
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(from.Name) + `" <` + r.From + ">"
}

func rejectedError(why SafeError) *Error {
	return &Error{Class: Rejected, Stage: StagePrepare, About: AboutUs, Err: why}
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f })
}

// ReservedConns is how many connections to a mail server stay free for other mails while strangers'
// mails are under way. Of one or two connections, fewer stay free. ReservedConns can be small,
// because more connections become free as soon as attempts end.
const ReservedConns = 2

// ShareOfStrangers returns how many of n workers or connections strangers' messages may use, if the
// rest should stay free: half of them or all but the reserved ones, whichever is more, but at least
// one.
func ShareOfStrangers(n, reserved int) int { return max(1, n/2, n-reserved) }
