package smtp

import (
	"context"

	"sendcode/internal/delivery"
)

// deliver runs one mail transaction (RFC 5321 section 3.3). It returns the reply that accepted the mail, and says whether the session can be used again.
// Cancelling ctx closes the socket at whatever stage.
func (s *session) deliver(ctx context.Context, mail *delivery.Rendered) (reply string, usable bool, fail *delivery.Error) {
	stop := context.AfterFunc(ctx, s.cut)
	s.mails++
	fail = s.begin(ctx, mail)
	if fail == nil {
		fail = s.step(ctx, delivery.StageBody, func() error { return s.write(mail.Content) })
	}
	if fail == nil {
		reply, fail = s.end(ctx)
	}
	usable = stop() && !s.adrift && (fail == nil || inStep(fail))
	s.stale = fail != nil
	return reply, usable, fail
}

// begin brings the server to where it waits for the content.
func (s *session) begin(ctx context.Context, mail *delivery.Rendered) *delivery.Error {
	if s.stale && s.step(ctx, delivery.StageMail, s.client.Reset) != nil {
		return failure(ctx, delivery.StageMail, errReset)
	}
	if mail.UTF8 && !s.offers("SMTPUTF8") {
		return &delivery.Error{Class: delivery.Rejected, Stage: delivery.StageMail, Err: errUTF8}
	}
	commands := s.commands(mail)
	if s.offers("PIPELINING") {
		return s.sayAll(ctx, commands)
	}
	for _, c := range commands {
		if fail := s.step(ctx, c.stage, func() error { return s.ask(c) }); fail != nil {
			return fail
		}
	}
	return nil
}

// write brings everything onto the wire before it returns, so that an error before the final dot is known to be before it.
func (s *session) write(content []byte) error {
	w := s.client.Text.W
	if _, err := w.Write(content); err != nil {
		return err
	}
	return w.Flush()
}

// end writes the final dot and reads the answer. Any 2xx is acceptance (RFC 5321 section 4.3.2).
func (s *session) end(ctx context.Context) (accepted string, fail *delivery.Error) {
	sent := s.wire.sent
	fail = s.step(ctx, delivery.StageDot, func() error {
		if err := s.write([]byte(".\r\n")); err != nil {
			return err
		}
		code, text, err := s.reply(2)
		accepted = delivery.Reply(code, enhanced(code, text))
		return err
	})
	if fail != nil && s.wire.sent == sent {
		fail.Class = delivery.Temporary // no byte of the dot has left
	}
	return accepted, fail
}
