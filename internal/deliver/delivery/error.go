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
	// Unknown means that the whole mail, or a part of an HTTP request, was sent, and no clear
	// answer came. The server may have accepted the message (RFC 1047). So the service must not
	// automatically send the message again, refund it or report it as failed.
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

// ErrConnLimit says that the mail server accepts no further connections, and that none of the open
// connections became free in time.
const ErrConnLimit = SafeError("the server takes no more connections")

// ErrPace says that the service may send no more mails to this mail server in this minute.
// Error.RetryAfter is the time until the next mail may begin.
const ErrPace = SafeError("the server gets no more mails in this minute (per_minute)")

// Error describes why a mail or a text message was not accepted. The database stores it in the row
// of the attempt. Neither an Error nor an error that it wraps contains the recipient, the
// credentials or the content. The server's words may contain these data, so RedactReply redacts the
// words.
type Error struct {
	Class ErrorClass
	Stage string
	// Status is the reply code of the mail server, or the HTTP status of a carrier or mail
	// provider. It is 0 if there was no readable reply.
	Status int
	// Code is the enhanced status code of a mail server, such as "5.1.1". For a carrier or
	// provider, it is their own code, such as "isv.MOBILE_NUMBER_ILLEGAL". Code is empty if the
	// reply has no code. A code 5.7.x means a policy of the server and not a bad address.
	Code string
	// Text has the mail server's words after RedactReply has redacted them. Text is empty for a
	// failed login and for carriers.
	Text string
	// About is the subject of the failure.
	About About
	// Reason is the reason of a rejection, such as ReasonTemplate, if a reason is stored with the
	// send; otherwise empty.
	Reason string
	// RetryAfter is how long the carrier or provider asked the service to wait. It is set only if
	// Class is Temporary. It is 0 if there was no such wish.
	RetryAfter time.Duration
	// Hold is how long the carrier will accept no messages for this recipient. It is 0 if the
	// carrier did not say so.
	Hold time.Duration
	// Elsewhere is true if another server or carrier may accept the message that this server or
	// carrier refused for good. For example, another carrier may reach the number, or another
	// server may accept addresses of this form.
	Elsewhere bool
	// Crowded is true if the reply may mean that this service has too many connections to the mail
	// server or sends it too many mails.
	Crowded bool
	// Chosen is true if the failure is about the recipient, and anyone may have chosen the
	// recipient. Such a failure says nothing about the health of the server or carrier.
	Chosen bool
	// ConnectionEnds is true if the mail server closes the connection. It is also true if the next
	// reply may belong to another command.
	ConnectionEnds bool
	// Err is a cause that the service itself found, such as ErrPace, and that is not in the reply.
	// Its text comes from the service, not from the server. Err is nil if there is no such cause.
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

// ReplyCodes returns status and code in the form in which the database stores them, such as "550
// 5.1.1".
func (e *Error) ReplyCodes() string { return FormatReplyCodes(e.Status, e.Code) }

// FormatReplyCodes returns a status and a code in the form in which the database stores them, such
// as "550 5.1.1". If the status is 0, FormatReplyCodes leaves it out.
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

// SafeError is an error whose text is written in this program. It contains no text of a server or a
// user, so it contains nothing private.
type SafeError string

func (s SafeError) Error() string { return string(s) }
