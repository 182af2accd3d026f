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
	// Rejected: the server or carrier would refuse the message again.
	Rejected ErrorClass = "rejected"
	// Temporary: certainly not accepted, but another try may succeed.
	Temporary ErrorClass = "temporary"
	// Unknown: the whole mail, or a part of an HTTP request, was sent, and no clear answer came.
	// The message may have been accepted (RFC 1047). So without an idempotency key, the service
	// must not by itself send it again. It must not refund it or report it as failed.
	Unknown ErrorClass = "unknown"
)

// These are stages of one delivery, in order. StageRequest and StageAnswer belong to a provider's
// HTTP API.
const (
	StagePrepare     = "message" // checking and rendering, before a connection is opened
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

	StageRequest = "request" // from the first byte of the request to the answer
	StageAnswer  = "answer"  // the provider has answered
)

// ReasonTemplate means that the texts of a message could not be rendered. The recipient is not at
// fault.
const ReasonTemplate = "template"

// ErrConnLimit means that the mail server accepts no further connections, and no open one became
// free in time.
const ErrConnLimit = SafeError("the server accepts no more connections")

// ErrPace means that the service may send no more mails to this mail server in this minute.
// Error.RetryAfter says when the next mail may begin.
const ErrPace = SafeError("the server gets no more mails in this minute (per_minute)")

// ErrGaveWay means that the service gave up the wait for a server or carrier, because other
// messages needed the worker or the connection. It is the cause of the end of the attempt's
// context.
const ErrGaveWay = SafeError("the server took too long while other messages waited")

// Error describes why a mail or a text message was not accepted. Status and Code are stored with
// the send. Neither an Error nor an error that it wraps contains the recipient, the credentials or
// the content. The server's words may contain them, so RedactReply redacts the words.
type Error struct {
	Class ErrorClass
	Stage string
	// Status is the reply code of the mail server, or the HTTP status of a carrier or mail
	// provider; 0 without a readable reply.
	Status int
	// Code is the enhanced status code of a mail server, such as "5.1.1", or a carrier's or
	// provider's own code, such as "isv.MOBILE_NUMBER_ILLEGAL". A code 5.7.x means a policy of the
	// server and not a bad address.
	Code string
	// Text has the mail server's words as RedactReply has left them; empty for a failed SMTP login
	// and for carriers.
	Text  string
	About About
	// Reason is the reason of a rejection, such as ReasonTemplate, if it is stored with the send.
	Reason string
	// RetryAfter is how long the carrier or provider asked the service to wait; with ErrPace, the
	// time until the next mail may begin. Only with Temporary.
	RetryAfter time.Duration
	// Hold is how long the carrier will accept no messages for this recipient, if it said so.
	Hold time.Duration
	// Elsewhere is true if another server or carrier may accept the message that this one refused
	// for good: another carrier may reach the number, or another server may accept the sender or
	// addresses of this form.
	Elsewhere bool
	// Crowded is true if the reply may mean that this service has too many connections to the mail
	// server or sends it too many mails.
	Crowded bool
	// Chosen is true if the failure is about the recipient, and anyone may have chosen the
	// recipient. Such a failure says nothing about the health of the server or carrier.
	Chosen bool
	// ConnectionEnds is true if no other mail may use the connection: the mail server closes it,
	// its login is no longer valid, or the next reply may belong to another command.
	ConnectionEnds bool
	// Err is a cause that is not in the reply, such as ErrPace. Its text contains nothing private.
	Err error
}

// Error is, for example, "rcpt: rejected: 550 5.1.1: User unknown".
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

// ReplyCodes returns status and code as the database stores them, such as "550 5.1.1".
func (e *Error) ReplyCodes() string { return FormatReplyCodes(e.Status, e.Code) }

// FormatReplyCodes returns a status and a code in the form of ReplyCodes. A status 0 is left out.
func FormatReplyCodes(status int, code string) string {
	if status == 0 {
		return code
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + code)
}

// MayBeAccepted reports whether the server may have accepted the message. It returns true for a nil
// error, too.
func (e *Error) MayBeAccepted() bool { return e == nil || e.Class == Unknown }

func (e *Error) Unwrap() error { return e.Err }

// SafeError is an error whose text this program composes without private data, so it may be logged.
type SafeError string

func (s SafeError) Error() string { return string(s) }
