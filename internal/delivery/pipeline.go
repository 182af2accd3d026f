package delivery

import "context"

// command is one line of a transaction and the reply to it: a whole code, or its first digits.
type command struct {
	stage, line string
	expect      int
}

// commands opens a transaction for one recipient.
func (s *session) commands(mail *rendered) []command {
	from := "MAIL FROM:" + mail.from
	if s.offers("8BITMIME") {
		from += " BODY=8BITMIME"
	}
	if mail.utf8 { // only then: a server may refuse to hand on what it was told is SMTPUTF8
		from += " SMTPUTF8"
	}
	return []command{{StageMail, from, 250}, {StageRcpt, "RCPT TO:" + mail.to, 25}, {StageData, "DATA", 354}}
}

func (s *session) offers(extension string) bool {
	offered, _ := s.client.Extension(extension)
	return offered
}

// ask says commands in one write, and hears the reply to the first.
func (s *session) ask(commands ...command) error {
	var lines []byte
	for _, c := range commands {
		lines = append(lines, c.line+"\r\n"...)
	}
	if err := s.write(lines); err != nil {
		return err
	}
	return s.hear(commands[0])
}

func (s *session) hear(c command) error {
	_, _, err := s.client.Text.ReadResponse(c.expect)
	return err
}

// sayAll says all commands in one write and hears their replies in turn (RFC 2920): one round trip in place of three.
// What counts is the first refusal, for those behind it follow from it. A server that waits for content all the same
// is left, without the dot that would end it: nothing may be taken for a mail that was refused before.
func (s *session) sayAll(ctx context.Context, commands []command) (first *Error) {
	first = s.step(ctx, commands[0].stage, s.config.CommandTimeout, func() error { return s.ask(commands...) })
	last := first
	for _, c := range commands[1:] {
		if last != nil && !inStep(last) {
			s.adrift = true
			return first
		}
		last = s.listen(ctx, c.stage, s.config.CommandTimeout, func() error { return s.hear(c) })
		if first == nil {
			first = last
		}
	}
	s.adrift = first != nil && (last == nil || !inStep(last))
	return first
}
