package smtp

import (
	"bytes"
	"cmp"
	"context"
	"strconv"
	"time"

	"sendcode/internal/deliver/delivery"
)

// deliver runs one mail transaction (RFC 5321 section 3.3). It returns the reply that accepted the
// mail, and whether the session can be used again. If ctx is canceled during any step of the
// transaction, deliver closes the socket. For keptFailure see blameRecipient.
func (s *session) deliver(ctx context.Context, mail *delivery.RenderedMail, keptFailure *delivery.Error) (reply string, usable bool,
	fail *delivery.Error,
) {
	stop := context.AfterFunc(ctx, s.closeSocket)
	defer stop()
	s.reused = s.mails > 0
	s.mails++
	s.shouldGiveUpRecipient = func(time.Duration) bool {
		return mail.OtherIsFree != nil && mail.OtherIsFree()
	}
	s.private.To, s.private.Content = mail.Private.To, mail.Private.Content
	fail = s.openTransaction(ctx, mail)
	if fail == nil {
		reply, fail = s.sendContent(ctx, mail.Content)
	}
	usable = stop() && !s.unusable && (fail == nil || !fail.ConnectionEnds)
	blameRecipient(fail, keptFailure, mail.Message.Stranger)
	s.stale = fail != nil
	return reply, usable, fail
}

// openTransaction sends MAIL, RCPT and DATA, after RSET if the last transaction failed. After
// success the server waits for the content.
func (s *session) openTransaction(ctx context.Context, mail *delivery.RenderedMail) *delivery.Error {
	if s.stale && s.runStep(ctx, delivery.StageMail, s.client.Reset) != nil {
		return newError(ctx, delivery.StageMail, errRSET, delivery.PrivateData{})
	}
	if mail.UTF8 && !s.offers("SMTPUTF8") {
		return &delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StageMail, About: delivery.AboutRecipient, Elsewhere: true,
			Err: errUTF8,
		}
	}
	opening := s.openingCommands(mail)
	commands := opening[:]
	// A stranger's MAIL is sent without RCPT, because RCPT could delay the answer to MAIL. That
	// answer shows that the connection works.
	if mail.Message.Stranger {
		if fail := s.runStep(ctx, delivery.StageMail, func() error { return s.sendCommands(commands[0]) }); fail != nil {
			return fail
		}
		s.onServed()
		commands = commands[1:]
	}
	if s.offers("PIPELINING") {
		return s.sendPipelined(ctx, commands)
	}
	for _, c := range commands {
		if fail := s.runStep(ctx, c.stage, func() error { return s.sendCommands(c) }); fail != nil {
			return fail
		}
	}
	return nil
}

// sendContent sends the content and the final dot in one write. It returns the reply in the form in
// which replies are stored. Any 2xx reply means that the server accepted the mail (RFC 5321 section
// 4.3.2). If the write fails before a byte of the dot has left, the mail was certainly not sent.
// sendContent decides this by the number of bytes that TLS has written to the connection. TLS only
// adds bytes, so the number is never too low.
func (s *session) sendContent(ctx context.Context, content []byte) (accepted string, fail *delivery.Error) {
	s.lines = append(appendDotStuffed(s.lines[:0], content), ".\r\n"...)
	before := s.conn.sent
	dotBegun := func() bool { return s.conn.sent-before > int64(len(s.lines)-len(".\r\n")) }
	defer func() { delivery.SetHandover(ctx, dotBegun()) }()
	if fail = s.runStep(ctx, delivery.StageBody, func() error { return s.write(s.lines) }); fail != nil {
		if dotBegun() {
			own, about := fail.Err, fail.About
			fail = delivery.ErrorByReply(delivery.StageDot, 0, "", delivery.NoMeaning)
			fail.Err, fail.About = own, cmp.Or(about, fail.About)
		}
		return "", fail
	}
	delivery.SetHandover(ctx, true)
	fail = s.awaitStep(ctx, delivery.StageDot, func() error {
		code, text, err := s.readReply(2)
		accepted = delivery.FormatReplyCodes(code, parseEnhancedCode(code, text))
		return err
	})
	if fail != nil {
		return "", fail
	}
	return accepted, nil
}

// appendDotStuffed appends content, with an additional dot before each line that begins with a dot
// (RFC 5321 section 4.5.2). The first line is a header field, so it does not begin with a dot.
func appendDotStuffed(out, content []byte) []byte {
	for {
		at := bytes.Index(content, []byte("\n."))
		if at < 0 {
			return append(out, content...)
		}
		out = append(append(out, content[:at+1]...), '.')
		content = content[at+1:]
	}
}

func (s *session) write(lines []byte) error {
	w := s.client.Text.W
	if _, err := w.Write(lines); err != nil {
		return err
	}
	return w.Flush()
}

// command is one line of a transaction. The field expect is the code of the reply that allows the
// next command, or the first digits of that code.
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

// openingCommands returns the commands that open a transaction for one recipient.
func (s *session) openingCommands(mail *delivery.RenderedMail) [3]command {
	var options string
	if s.offers("8BITMIME") {
		options = " BODY=8BITMIME"
	}
	if mail.UTF8 { // only if needed, because a relay may be unable to pass on a mail with SMTPUTF8
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

// sendCommands sends commands in one write, and reads the reply to the first.
func (s *session) sendCommands(commands ...command) error {
	s.lines = s.lines[:0]
	for _, c := range commands {
		s.lines = c.append(s.lines)
	}
	if err := s.write(s.lines); err != nil {
		return err
	}
	return s.readExpected(commands[0])
}

func (s *session) readExpected(c command) error {
	_, _, err := s.readReply(c.expect)
	return err
}

// readReply reads one reply. It fails if codeMatches returns false for the reply's code. If a reply
// has one line and the expected code, readReply parses the reply itself, which saves allocations.
// net/textproto parses any other reply.
func (s *session) readReply(expect int) (code int, text string, err error) {
	if line, ok := s.awaitBufferedLine(); ok && line[3] == ' ' && codeMatches(line[:3], expect) {
		code, _ = strconv.Atoi(string(line[:3]))
		text = string(bytes.TrimRight(line[4:], "\r\n"))
		_, err = s.client.Text.R.Discard(len(line))
		return code, text, err
	}
	return s.client.Text.ReadResponse(expect)
}

// awaitBufferedLine waits until at least one byte has arrived, and returns the next line without
// consuming it. It returns false if the buffer does not yet have the whole line, or if the line has
// fewer than four bytes.
func (s *session) awaitBufferedLine() ([]byte, bool) {
	if _, err := s.client.Text.R.Peek(1); err != nil {
		return nil, false
	}
	all, _ := s.client.Text.R.Peek(s.client.Text.R.Buffered())
	end := bytes.IndexByte(all, '\n')
	return all[:end+1], end >= len("250 ")
}

// codeMatches reports whether a reply's code is expect, or begins with the digits of expect.
func codeMatches(digits []byte, expect int) bool {
	code := 0
	for _, d := range digits {
		if d < '0' || d > '9' {
			return false
		}
		code = 10*code + int(d-'0')
	}
	return code >= 100 && (code == expect || code/10 == expect || code/100 == expect)
}

// sendPipelined sends all commands in one write and reads their replies in order (RFC 2920). This
// takes one round trip instead of three. sendPipelined returns the first refusal, because later
// refusals follow from the first. If the server asks for content after a refusal, the connection is
// closed without the final dot, so that the server never accepts a refused mail.
func (s *session) sendPipelined(ctx context.Context, commands []command) (first *delivery.Error) {
	first = s.runStep(ctx, commands[0].stage, func() error { return s.sendCommands(commands...) })
	last := first
	for _, c := range commands[1:] {
		if last != nil && last.ConnectionEnds {
			s.unusable = true
			return first
		}
		last = s.awaitStep(ctx, c.stage, func() error { return s.readExpected(c) })
		if first == nil {
			first = last
		}
	}
	s.unusable = first != nil && (last == nil || last.ConnectionEnds)
	return first
}
