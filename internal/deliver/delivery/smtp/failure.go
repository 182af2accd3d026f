package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"sendcode/internal/deliver/delivery"
)

const (
	errClosed          = delivery.SafeError("the sender is closed")
	errConnBroken      = delivery.SafeError("the connection broke")
	errNoConnection    = delivery.SafeError("no connection")
	errHandshake       = delivery.SafeError("the TLS handshake failed (smtps:// is for TLS from the first byte, smtp:// for STARTTLS)")
	errNoGreeting      = delivery.SafeError("no greeting came: if the port is for TLS from the first byte, write smtps://")
	errProtocol        = delivery.SafeError("the server broke the protocol")
	errUnexpectedReply = delivery.SafeError("the reply does not fit the command")
	errUnsolicited     = delivery.SafeError("the server spoke before it was asked")
	errReplyTooLong    = delivery.SafeError("the reply is too long")
	errRSET            = delivery.SafeError("the kept connection could not be reset")
	errNoSTARTTLS      = delivery.SafeError("the server does not offer STARTTLS")
	errInjectedBytes   = delivery.SafeError("bytes in the clear behind the answer to STARTTLS")
	errOldTLS          = delivery.SafeError("its TLS is older than 1.2")
	errCleartextLogin  = delivery.SafeError("refusing to log in over an unencrypted connection")
	errNoAuth          = delivery.SafeError("the server offers no way to log in that is known here")
	errOAuth           = delivery.SafeError("the server takes OAuth 2.0 alone (XOAUTH2): with Microsoft 365 set oauth in the URL, " +
		"with Google use an app password")
	errNoOAuth = delivery.SafeError("the server does not offer OAuth 2.0 (XOAUTH2, OAUTHBEARER)")
	errLogin   = delivery.SafeError("logging in failed")
	errUTF8    = delivery.SafeError("the server does not take non-ASCII local parts (SMTPUTF8)")
)

// newError returns the error of a step that failed with err. If there was a whole reply, its code
// decides the class, and its text is redacted; while logging in, the text is left out.
func newError(ctx context.Context, stage string, err error, private delivery.PrivateData) *delivery.Error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code >= 200 && reply.Code < 600 {
		e := &delivery.Error{
			Class: classOfReply(stage, reply.Code), Stage: stage, Status: reply.Code,
			Code: parseEnhancedCode(reply.Code, reply.Msg),
		}
		if stage != delivery.StageAuth {
			e.Text = delivery.RedactReply(withoutEnhancedCode(reply.Msg, e.Code), private)
			e.Says = delivery.MeaningOf(reply.Msg)
		}
		if own, ok := errors.AsType[delivery.SafeError](err); ok {
			e.Err = own
		}
		if reply.Code < 400 {
			e.Err = errUnexpectedReply
		}
		return e
	}
	e := &delivery.Error{Class: classWithoutReply(stage), Stage: stage, Err: safeCause(stage, err)}
	if ctx.Err() != nil {
		e.Err = ctx.Err()
	}
	return e
}

// saysTooMuch reports whether a failure may say that the server has too many connections or mails of us: Postfix's 421 and
// 4.7.0, 4.3.2 (RFC 3463), Microsoft's 432, 452 and 454. A connection that nothing listens to says no such thing.
func saysTooMuch(fail *delivery.Error) bool {
	if fail == nil || (fail.Stage == delivery.StageTLS || fail.Stage == delivery.StageAuth) && fail.Status == 454 {
		return false // 454 is also "TLS not available" and "temporary authentication failure" (RFC 3207, RFC 4954)
	}
	return slices.Contains([]int{421, 432, 452, 454}, fail.Status) || fail.Code == "4.3.2" ||
		strings.HasPrefix(fail.Code, "4.7.") || fail.Stage == delivery.StageHello && fail.Status/100 == 4
}

// refusesConnection reports whether the failure of the first mail over a connection may say that the connection is
// one too many. From RCPT on, other replies than these may be about the recipient or the mail.
func refusesConnection(fail *delivery.Error) bool {
	switch {
	case !saysTooMuch(fail):
		return false
	case fail.Stage == delivery.StageRcpt, fail.Stage == delivery.StageData, fail.Stage == delivery.StageDot:
		return fail.AboutConnection()
	}
	return true
}

// classOfReply returns the class of a failure by the reply's code.
func classOfReply(stage string, code int) delivery.ErrorClass {
	switch {
	case code >= 400 && code < 500:
		return delivery.Temporary
	case code < 400:
		return classWithoutReply(stage)
	case stage == delivery.StageHello || stage == delivery.StageTLS || stage == delivery.StageAuth ||
		isAuthRefusal(code):
		return delivery.Temporary // the refusal is not about the mail
	}
	return delivery.Rejected
}

// isAuthRefusal reports whether a code refuses our authentication or encryption (RFC 4954 section
// 6), and not the recipient.
func isAuthRefusal(code int) bool {
	return code == 530 || code == 534 || code == 535 || code == 538
}

// classWithoutReply returns the class of a failure at a stage without a reply that can be read.
func classWithoutReply(stage string) delivery.ErrorClass {
	if stage == delivery.StageDot {
		return delivery.Unknown
	}
	return delivery.Temporary
}

var enhancedCodePattern = regexp.MustCompile(`^[245]\.[0-9]{1,3}\.[0-9]{1,3}$`)

// parseEnhancedCode returns the enhanced status code at the beginning of a reply's text (RFC 2034
// section 3); "" if there is none, or one whose first digit is not that of the reply's code.
func parseEnhancedCode(code int, text string) string {
	word := text
	if end := strings.IndexAny(text, " \t\r\n"); end >= 0 {
		word = text[:end]
	}
	if !enhancedCodePattern.MatchString(word) || int(word[0]-'0') != code/100 {
		return ""
	}
	return word
}

// withoutEnhancedCode returns a reply's text without the enhanced status code, which may begin each
// of its lines.
func withoutEnhancedCode(text, code string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, code)
		if code == "" || !found {
			rest = line
		}
		b.WriteString(rest)
	}
	return b.String()
}

// safeCause returns the cause of err if its text has nothing private, such as a timeout. For any other
// error, whose text may quote the server, it returns genericCause.
func safeCause(stage string, err error) error {
	var own delivery.SafeError
	var errno syscall.Errno
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var alert *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &timeout) && timeout.Timeout():
		return os.ErrDeadlineExceeded
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &dns):
		return dns
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &alert) && strings.HasSuffix(alert.Op, " error"):
		return alert // "remote error" and "local error" are how crypto/tls reports alerts
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return errConnBroken
	}
	return genericCause(stage)
}

// genericCause returns an error in our own words for a failure at a stage.
func genericCause(stage string) error {
	switch stage {
	case delivery.StageDial:
		return errNoConnection
	case delivery.StageTLS:
		return errHandshake
	case delivery.StageAuth:
		return errLogin
	}
	return errProtocol
}
