package delivery

import (
	"strconv"
	"strings"
	"time"
)

// ErrorClass says what is known about a message that was not accepted for certain.
type ErrorClass string

const (
	// Rejected: refused for good. Not accepted, and another try would be refused too.
	Rejected ErrorClass = "rejected"
	// Temporary: certainly not accepted. Another try may succeed.
	Temporary ErrorClass = "temporary"
	// Unknown: the final dot was written and no readable answer came. It may have been accepted, so
	// it must not be sent again by itself, refunded or called failed (RFC 1047 describes the
	// window).
	Unknown ErrorClass = "unknown"
)

// The stages of one delivery, in order.
const (
	StageMessage     = "message" // checking and rendering, before anything is dialled
	StageAllSetAside = "aside"   // every server, or carrier, is set aside after failures: none was dialled
	StageDial        = "dial"    // waiting for a free connection, or opening one
	StageTLS         = "tls"     // STARTTLS and the handshake, or the handshake of smtps
	StageHello       = "hello"   // greeting and EHLO
	StageAuth        = "auth"
	StageMail        = "mail" // MAIL FROM, and RSET on a kept connection
	StageRcpt        = "rcpt"
	StageData        = "data" // the DATA command up to 354
	StageBody        = "body" // the message, without the final dot
	StageDot         = "dot"  // the final dot and the answer to it

	StageRequest = "request" // of a provider by HTTP: from the request's first byte to the answer
	StageAnswer  = "answer"  // the provider has answered
)

// ReasonTemplate says that the texts of a message could not be made. The recipient has no part in
// it.
const ReasonTemplate = "template"

// Error is a delivery that did not end in acceptance, of a mail or of a text message: the one
// description of a failure, from the wire to the row. Neither its text nor anything that it wraps
// holds the recipient, the credentials or the content; of the server's words, which may repeat
// them, it has what RedactReply leaves.
type Error struct {
	Class ErrorClass
	Stage string
	// Status is the server's reply code or the carrier's HTTP status, 0 where no readable reply
	// came.
	Status int
	// Code is the enhanced status code such as "5.1.1", or the carrier's own such as
	// "isv.MOBILE_NUMBER_ILLEGAL"; empty where there was none that looks like one. 5.7.x is policy,
	// not a bad address.
	Code string
	// Text is the mail server's words, as RedactReply leaves them; empty while logging in, and for
	// carriers.
	Text string
	// Reason is a word for a rejection that rows tell apart, such as ReasonTemplate; or empty.
	Reason string
	// RetryAfter is how long the carrier asked to be left alone, with Temporary; 0: it did not say.
	RetryAfter time.Duration
	// Hold is how long the carrier takes no messages for this recipient; 0: it did not say that.
	Hold time.Duration
	// BadNumber says that the carrier's code is about the number, which gets no text messages; for
	// mails see BadAddress.
	BadNumber bool
	// PerNumber says of a carrier's Temporary answer that it may be about this number alone, as one
	// without a route, and not about our account.
	PerNumber bool
	// Err is the cause beside the reply, in words of our own; nil where the reply says it all.
	Err error
}

// Error returns for example "rcpt: rejected: 550 5.1.1: User unknown".
func (e *Error) Error() string {
	text := e.Stage + ": " + string(e.Class)
	if reply := e.Reply(); reply != "" {
		text += ": " + reply
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Reply returns status and code as rows have them, such as "550 5.1.1".
func (e *Error) Reply() string { return FormatReply(e.Status, e.Code) }

// FormatReply returns a status and a code as rows have them, such as "550 5.1.1"; a status of 0 is
// left out.
func FormatReply(status int, code string) string {
	if status == 0 {
		return code
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + code)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// SafeText is an error in our own words, so it is known to hold nothing private.
type SafeText string

func (p SafeText) Error() string { return string(p) }
