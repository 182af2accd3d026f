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
	// Rejected: the server or carrier refused the message for good, and would refuse it again.
	Rejected ErrorClass = "rejected"
	// Temporary: certainly not accepted. Another try may succeed.
	Temporary ErrorClass = "temporary"
	// Unknown: the whole mail, or some of an HTTP request, was written, and no clear answer came.
	// The server may have accepted the message (RFC 1047). So it must not be sent again
	// automatically, refunded or called failed.
	Unknown ErrorClass = "unknown"
)

// The stages of one delivery, in order. StageRequest and StageAnswer belong to a provider's HTTP
// API.
const (
	StagePrepare     = "message" // checking and rendering, before anything is dialled
	StageAllSetAside = "aside"   // every server, or every carrier that reaches the number, is set aside after failures
	StageDial        = "dial"    // waiting for a free connection, or opening one
	StageTLS         = "tls"     // STARTTLS and the handshake, or the handshake of smtps
	StageHello       = "hello"   // greeting and EHLO
	StageAuth        = "auth"
	StageMail        = "mail" // MAIL FROM, and RSET on a kept connection
	StageRcpt        = "rcpt"
	StageData        = "data" // the DATA command up to 354
	StageBody        = "body" // the message, without the final dot
	StageDot         = "dot"  // the final dot and the answer to it

	StageRequest = "request" // for a provider with an HTTP API: from the first byte of the request to the answer
	StageAnswer  = "answer"  // the provider has answered
)

// ReasonTemplate says that the texts of a message could not be rendered. The recipient is not at
// fault.
const ReasonTemplate = "template"

// ErrConnLimit says that the mail server takes no more connections than it has, and that all of
// them stayed in use.
const ErrConnLimit = SafeError("the server takes no more connections")

// ErrPace says that the mail server may get no more mails in this minute. Error.RetryAfter is the
// wait until the next mail may begin.
const ErrPace = SafeError("the server gets no more mails in this minute (per_minute)")

// Error describes why a mail or a text message was not accepted. The row in the database records
// it. Neither an Error nor an error that it wraps has the recipient, the credentials or
// the content. The server's words may repeat these, so RedactReply redacts them.
type Error struct {
	Class ErrorClass
	Stage string
	// Status is the server's reply code, or the HTTP status of a carrier or mail provider; 0 if no
	// readable reply came.
	Status int
	// Code is the enhanced status code such as "5.1.1", or a carrier's or provider's own code such
	// as "isv.MOBILE_NUMBER_ILLEGAL"; empty if the reply has no code. 5.7.x is about policy, not
	// about a bad address.
	Code string
	// Text has the mail server's words, redacted by RedactReply; empty for a failed login, and for
	// carriers.
	Text string
	// About is the subject of the failure.
	About About
	// Reason is the reason of a rejection, such as ReasonTemplate, if a reason is stored with the
	// send; otherwise empty.
	Reason string
	// RetryAfter is the wait that the carrier or provider asked for, with Temporary; 0: none.
	RetryAfter time.Duration
	// Hold is how long the carrier takes no messages for this recipient; 0: the carrier has no
	// hold.
	Hold time.Duration
	// Elsewhere: this server or carrier refuses the message for good, but another may take it, for
	// example because it reaches the number or takes addresses of this form.
	Elsewhere bool
	// Crowded: the mail server may mean that it has too many connections or mails of this service.
	Crowded bool
	// ConnectionEnds: the mail server closes the connection, or it is unknown to which command its
	// next reply belongs.
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

// ReplyCodes returns status and code in the form of the rows, such as "550 5.1.1".
func (e *Error) ReplyCodes() string { return FormatReplyCodes(e.Status, e.Code) }

// FormatReplyCodes returns a status and a code in the form of the rows, such as "550 5.1.1". A
// status of 0 is left out.
func FormatReplyCodes(status int, code string) string {
	if status == 0 {
		return code
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + code)
}

// MayBeAccepted reports whether the message may have been accepted: there is no error, or its class
// is Unknown.
func (e *Error) MayBeAccepted() bool { return e == nil || e.Class == Unknown }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// SafeError is an error in the service's own words, so it contains nothing private.
type SafeError string

func (s SafeError) Error() string { return string(s) }
