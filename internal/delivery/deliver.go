package delivery

import (
	"context"
	"errors"
	"net/textproto"

	"github.com/wneessen/go-mail/smtp"
)

// reply is the server's answer to an accepted message.
type reply struct {
	code     int
	enhanced string
}

// deliver runs one mail transaction (RFC 5321 section 3.3) and says whether the session can be used again.
// Cancelling ctx closes the socket at whatever stage.
func (s *session) deliver(ctx context.Context, mail *rendered) (answer reply, usable bool, fail *Error) {
	stop := context.AfterFunc(ctx, s.cut)
	s.mails++
	answer, fail = s.transact(ctx, mail)
	usable = stop() && (fail == nil || inStep(fail))
	s.stale = fail != nil
	return answer, usable, fail
}

func (s *session) transact(ctx context.Context, mail *rendered) (reply, *Error) {
	if fail := s.envelope(ctx, mail); fail != nil {
		return reply{}, fail
	}
	body, fail := s.openBody(ctx)
	if fail != nil {
		return reply{}, fail
	}
	if fail := s.writeBody(ctx, body, mail.content); fail != nil {
		return reply{}, fail
	}
	return s.end(ctx, body)
}

// envelope says MAIL FROM and the one RCPT TO.
func (s *session) envelope(ctx context.Context, mail *rendered) *Error {
	if s.stale && s.step(ctx, StageMail, s.config.CommandTimeout, s.client.Reset) != nil {
		return failure(ctx, StageMail, errReset)
	}
	if mail.utf8 {
		if offered, _ := s.client.Extension("SMTPUTF8"); !offered {
			return &Error{Class: Rejected, Stage: StageMail, Err: errUTF8}
		}
	}
	// A server may refuse to hand on what it was told is SMTPUTF8, so only a mail that needs it says so.
	s.client.SkipSMTPUTF8(!mail.utf8)
	fail := s.step(ctx, StageMail, s.config.CommandTimeout, func() error { return s.client.Mail(mail.from) })
	if fail != nil {
		return fail
	}
	return s.step(ctx, StageRcpt, s.config.CommandTimeout, func() error { return s.client.Rcpt(mail.to) })
}

func (s *session) openBody(ctx context.Context) (body *smtp.DataCloser, fail *Error) {
	fail = s.step(ctx, StageData, s.config.CommandTimeout, func() error {
		writer, err := s.client.Data()
		if err == nil {
			body = writer.(*smtp.DataCloser)
		}
		return err
	})
	return body, fail
}

// writeBody brings everything but the final dot onto the wire, so that an error here is known to be before it.
func (s *session) writeBody(ctx context.Context, body *smtp.DataCloser, content []byte) *Error {
	return s.step(ctx, StageBody, s.config.CommandTimeout, func() error {
		if _, err := body.Write(content); err != nil {
			return err
		}
		return s.client.Text.W.Flush()
	})
}

// end writes the final dot and reads the answer. Any 2xx is acceptance (RFC 5321 section 4.3.2).
func (s *session) end(ctx context.Context, body *smtp.DataCloser) (reply, *Error) {
	sent := s.wire.sent
	accepted := reply{code: 250}
	fail := s.step(ctx, StageDot, s.config.DotTimeout, func() error {
		err := body.Close() // does not report a failed write, but after one there is nothing to read: see wire
		var other *textproto.Error
		if errors.As(err, &other) && other.Code/100 == 2 {
			accepted = reply{other.Code, enhanced(other.Code, other.Msg)}
			return nil
		}
		accepted.enhanced = enhanced(250, body.ServerResponse())
		return err
	})
	if fail != nil && s.wire.sent == sent {
		fail.Class = Temporary // no byte of the dot has left
	}
	return accepted, fail
}
