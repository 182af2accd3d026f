package smtp

import (
	"bytes"
	"context"
	"strconv"

	"sendcode/internal/delivery"
)

// deliver runs one mail transaction (RFC 5321 section 3.3). It returns the reply that accepted the mail, and whether the session can be used
// again. Cancelling ctx closes the socket at whatever stage.
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
	if fail == nil {
		return accepted, nil
	}
	if s.wire.sent == sent {
		fail.Class = delivery.Temporary // no byte of the dot has left
	}
	return "", fail
}

// command is one line of a transaction and the reply to it: a whole code, or its first digits.
type command struct {
	stage, verb string
	argument    string // an address, in angle brackets on the wire
	options     string
	expect      int
}

func (c command) append(out []byte) []byte {
	out = append(out, c.verb...)
	if c.argument != "" {
		out = append(append(append(out, '<'), c.argument...), '>')
	}
	return append(append(out, c.options...), "\r\n"...)
}

// commands opens a transaction for one recipient.
func (s *session) commands(mail *delivery.Rendered) [3]command {
	var options string
	if s.offers("8BITMIME") {
		options = " BODY=8BITMIME"
	}
	if mail.UTF8 { // only then: a server may refuse to hand on what it was told is SMTPUTF8
		options += " SMTPUTF8"
	}
	return [3]command{
		{delivery.StageMail, "MAIL FROM:", mail.From, options, 250},
		{delivery.StageRcpt, "RCPT TO:", mail.To, "", 25},
		{delivery.StageData, "DATA", "", "", 354},
	}
}

func (s *session) offers(extension string) bool {
	offered, _ := s.client.Extension(extension)
	return offered
}

// ask sends commands in one write, and reads the reply to the first.
func (s *session) ask(commands ...command) error {
	s.lines = s.lines[:0]
	for _, c := range commands {
		s.lines = c.append(s.lines)
	}
	if err := s.write(s.lines); err != nil {
		return err
	}
	return s.hear(commands[0])
}

func (s *session) hear(c command) error {
	_, _, err := s.reply(c.expect)
	return err
}

// reply reads one reply. Nearly all replies are one line of the expected code, which is read here; net/textproto reads the others.
func (s *session) reply(expect int) (code int, text string, err error) {
	if line, ok := s.line(); ok && line[3] == ' ' && expected(line[:3], expect) {
		code, _ = strconv.Atoi(string(line[:3]))
		text = string(bytes.TrimRight(line[4:], "\r\n"))
		_, err = s.client.Text.R.Discard(len(line))
		return code, text, err
	}
	return s.client.Text.ReadResponse(expect)
}

// line returns the next line and leaves it unread; false if it does not come, or not whole at once.
func (s *session) line() ([]byte, bool) {
	if _, err := s.client.Text.R.Peek(1); err != nil {
		return nil, false
	}
	all, _ := s.client.Text.R.Peek(s.client.Text.R.Buffered())
	end := bytes.IndexByte(all, '\n')
	return all[:end+1], end >= len("250 ")
}

// expected reports whether a reply's code is expect, or begins with the digits of expect.
func expected(digits []byte, expect int) bool {
	code := 0
	for _, d := range digits {
		if d < '0' || d > '9' {
			return false
		}
		code = 10*code + int(d-'0')
	}
	return code >= 100 && (code == expect || code/10 == expect || code/100 == expect)
}

// sayAll sends all commands in one write and reads their replies in turn (RFC 2920): one round trip in place of three.
// It returns the first refusal, from which later ones follow. If the server waits for content after a refusal, the connection is
// abandoned without the final dot: the server must take nothing for a mail that it refused before.
func (s *session) sayAll(ctx context.Context, commands [3]command) (first *delivery.Error) {
	first = s.step(ctx, commands[0].stage, func() error { return s.ask(commands[:]...) })
	last := first
	for _, c := range commands[1:] {
		if last != nil && !inStep(last) {
			s.adrift = true
			return first
		}
		last = s.listen(ctx, c.stage, func() error { return s.hear(c) })
		if first == nil {
			first = last
		}
	}
	s.adrift = first != nil && (last == nil || !inStep(last))
	return first
}
