package delivery

import (
	"strconv"
	"strings"
	"time"
)

// ErrorClass says whether a message that failed may have been accepted, and whether another try may
// succeed.
type ErrorClass string

const (
	// Rejected: refused for good. Not accepted, and another try would be refused too.
	Rejected ErrorClass = "rejected"
	// Temporary: certainly not accepted. Another try may succeed.
	Temporary ErrorClass = "temporary"
	// Unknown: the whole mail, or some of an HTTP request, was written, and no clear answer came.
	// The server may have accepted it (RFC 1047), so it must not be sent again automatically,
	// refunded or called failed.
	Unknown ErrorClass = "unknown"
)

// The stages of one delivery, in order. StageRequest and StageAnswer are those of a provider's HTTP
// API.
const (
	StagePrepare     = "message" // checking and rendering, before anything is dialled
	StageAllSetAside = "aside"   // every server is set aside after failures, or every carrier that may reach the number
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

// ReasonTemplate says that the texts of a message could not be rendered. The recipient is not at
// fault.
const ReasonTemplate = "template"

// ErrConnLimit says that the mail server takes no more connections than it has, and all of these
// stayed in use.
const ErrConnLimit = SafeError("the server takes no more connections")

// ErrPace says that as many mails have begun within a minute as the mail server may get.
// Error.RetryAfter is when the next one may begin.
const ErrPace = SafeError("the server gets no more mails in this minute (per_minute)")

// Error describes why a mail or a text message was not accepted, for all callers up to the row in
// the database. Neither it nor the errors that it wraps have the recipient, the credentials or the
// content: the server's words may repeat them, and are redacted by RedactReply.
type Error struct {
	Class ErrorClass
	Stage string
	// Status is the server's reply code, or the HTTP status of a carrier or mail provider; 0 if no
	// readable reply came.
	Status int
	// Code is the enhanced status code such as "5.1.1", or a carrier's or provider's own code such
	// as "isv.MOBILE_NUMBER_ILLEGAL"; empty if the reply has nothing like a code. 5.7.x is policy,
	// not a bad address.
	Code string
	// Text has the mail server's words, redacted by RedactReply; empty for a failed login, and for
	// carriers.
	Text string
	// About is the subject of the failure.
	About About
	// Reason is the reason of a rejection that is stored with a send, such as ReasonTemplate; empty
	// for others.
	Reason string
	// RetryAfter is the wait that the carrier or provider asked for, with Temporary; 0: none.
	RetryAfter time.Duration
	// Hold is how long the carrier takes no messages for this recipient; 0: it set no hold.
	Hold time.Duration
	// Elsewhere: this server or carrier refuses the message for good, and another one may take it,
	// such as one that reaches the number, or takes addresses of this form.
	Elsewhere bool
	// Crowded: the mail server may say that it has too many connections or mails of us.
	Crowded bool
	// ConnectionEnds: the mail server closes the connection, or the command of its next reply is
	// not known.
	ConnectionEnds bool
	// Err is a cause that the reply does not say, in our own words; nil if there is none.
	Err error
}

// Error returns for example "rcpt: rejected: 550 5.1.1: User unknown".
func (e *Error) Error() string {
	text := e.Stage + ": " + string(e.Class)
	if reply := e.ReplyCodes(); reply != "" {
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

// ReplyCodes returns status and code as rows have them, such as "550 5.1.1".
func (e *Error) ReplyCodes() string { return FormatReplyCodes(e.Status, e.Code) }

// FormatReplyCodes returns a status and a code as rows have them, such as "550 5.1.1"; a status of
// 0 is left out.
func FormatReplyCodes(status int, code string) string {
	if status == 0 {
		return code
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + code)
}

// MayBeAccepted reports whether the message may have been accepted: without an error, or if it is
// Unknown.
func (e *Error) MayBeAccepted() bool { return e == nil || e.Class == Unknown }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// SafeError is an error in our own words, so it has nothing private.
type SafeError string

func (s SafeError) Error() string { return string(s) }
