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
	errUnsolicited     = delivery.SafeError("the server sent a reply before a command")
	errReplyTooLong    = delivery.SafeError("the reply is too long")
	errRSET            = delivery.SafeError("the kept connection could not be reset")
	errNoSTARTTLS      = delivery.SafeError("the server does not offer STARTTLS")
	errInjectedBytes   = delivery.SafeError("unencrypted bytes after the reply to STARTTLS")
	errOldTLS          = delivery.SafeError("its TLS is older than 1.2")
	errCleartextLogin  = delivery.SafeError("refusing to log in over an unencrypted connection")
	errNoAuth          = delivery.SafeError("the server offers no login mechanism that this program knows")
	errOAuth           = delivery.SafeError("the server takes only OAuth 2.0 (XOAUTH2): with Microsoft 365 set oauth in the URL, " +
		"with Google use an app password")
	errNoOAuth = delivery.SafeError("the server does not offer OAuth 2.0 (XOAUTH2, OAUTHBEARER)")
	errLogin   = delivery.SafeError("logging in failed")
	errUTF8    = delivery.SafeError("the server does not accept non-ASCII local parts (SMTPUTF8)")
)

// newError returns the error of a step that failed with err. If err is a whole reply of the server,
// the reply determines the error's About. The text of the reply is redacted. At the login, the text
// is left out.
func newError(ctx context.Context, stage string, err error, private delivery.PrivateData) *delivery.Error {
	reply, ok := errors.AsType[*textproto.Error](err)
	if !ok || reply.Code < 200 || reply.Code >= 600 {
		e := delivery.ErrorByReply(stage, 0, "", delivery.NoMeaning)
		e.Err = safeCause(stage, err)
		if ctx.Err() != nil {
			e.Err, e.About = delivery.CauseOf(ctx), delivery.AboutUs
		}
		return e
	}
	code := parseEnhancedCode(reply.Code, reply.Msg)
	if stage == delivery.StageAuth {
		return withOwnCause(delivery.ErrorByReply(stage, reply.Code, code, delivery.NoMeaning), err)
	}
	e := delivery.ErrorByReply(stage, reply.Code, code, delivery.MeaningOf(reply.Msg))
	e.Text = delivery.RedactReply(withoutEnhancedCode(reply.Msg, code), private)
	return withOwnCause(e, err)
}

// withOwnCause sets e.Err to the delivery.SafeError in err, if there is one. If the reply is no
// refusal (its status is below 400), withOwnCause sets e.Err to errUnexpectedReply.
func withOwnCause(e *delivery.Error, err error) *delivery.Error {
	if own, ok := errors.AsType[delivery.SafeError](err); ok {
		e.Err = own
	}
	if e.Status < 400 {
		e.Err = errUnexpectedReply
	}
	return e
}

// refusesConnection reports whether the failure of the first mail over a connection may mean that
// there is one connection too many.
func refusesConnection(fail *delivery.Error) bool {
	return fail != nil && fail.Crowded && fail.AffectsOthers() && fail.About != delivery.AboutPace
}

// refusesSilently is like refusesConnection, but for a failure without a reply. It reports whether
// the connection failed before the mail began, for example because the server, or a firewall in
// front of it, ended the connection or was silent. The reason may be that one connection too many
// is open.
func refusesSilently(fail *delivery.Error) bool {
	if fail == nil || fail.Status != 0 || fail.About != delivery.AboutServer {
		return false
	}
	_, refused := errors.AsType[syscall.Errno](fail.Err)
	switch fail.Stage {
	case delivery.StageDial, delivery.StageTLS, delivery.StageHello, delivery.StageAuth, delivery.StageMail:
		return refused || slices.ContainsFunc([]error{
			errConnBroken, errNoConnection, errHandshake, errProtocol, errReplyTooLong, os.ErrDeadlineExceeded,
		}, func(err error) bool { return errors.Is(fail.Err, err) })
	}
	return false
}

// blameRecipient sets About to AboutRecipient if a failure is due to the recipient, although the
// reply alone says otherwise. keptFailure is the mail's earlier failure over a kept connection, if
// the mail was then offered over a fresh connection; otherwise nil.
func blameRecipient(fail, keptFailure *delivery.Error, stranger bool) {
	if endedBoth(keptFailure, fail) || stranger && dependsOnRecipient(fail) {
		fail.About, fail.Crowded = delivery.AboutRecipient, false
	}
}

// endedBoth reports whether a mail ended two connections at the same step, after MAIL: first a kept
// one, which had delivered other mails, and then a fresh one. For example, some servers answer 421
// to one recipient.
func endedBoth(keptFailure, fresh *delivery.Error) bool {
	return keptFailure != nil && fresh != nil && keptFailure.About == delivery.AboutConnection && fresh.About == delivery.AboutConnection &&
		keptFailure.Stage == fresh.Stage && keptFailure.Stage != delivery.StageMail
}

// dependsOnRecipient reports whether a stranger, who chose the recipient's domain, may have caused
// a failure: it is Temporary and happened at RCPT or later. There are two exceptions: AboutUs
// always, and AboutPace and AboutAccount after RCPT.
func dependsOnRecipient(fail *delivery.Error) bool {
	if fail == nil || fail.Class != delivery.Temporary || fail.About == delivery.AboutUs {
		return false
	}
	switch fail.Stage {
	case delivery.StageRcpt:
		return true
	case delivery.StageData, delivery.StageBody, delivery.StageDot:
		return fail.About != delivery.AboutPace && fail.About != delivery.AboutAccount
	}
	return false
}

var enhancedCodePattern = regexp.MustCompile(`^[245]\.[0-9]{1,3}\.[0-9]{1,3}$`)

// parseEnhancedCode returns the enhanced status code at the beginning of a reply's text (RFC 2034
// section 3). It returns "" if there is none, or if its first digit differs from the first digit of
// the reply's code.
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

// withoutEnhancedCode returns a reply's text without the enhanced status code that may begin each
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

// safeCause returns the cause of err if the cause's text has nothing private. A timeout is an
// example. The text of any other error may quote the server, so for such an error safeCause returns
// genericCause.
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

// genericCause returns an error for a failure at a stage. The text of the error is fixed for the
// stage and quotes nothing from the server.
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
