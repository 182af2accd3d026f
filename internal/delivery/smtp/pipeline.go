package smtp

import (
	"bytes"
	"context"
	"strconv"

	"sendcode/internal/delivery"
)

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
