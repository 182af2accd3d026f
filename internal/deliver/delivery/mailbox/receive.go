package mailbox

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/emersion/go-message"
	gomail "github.com/emersion/go-message/mail"
	"github.com/emersion/go-smtp"
)

// session implements smtp.Session of go-smtp.
type session struct {
	mailbox *Mailbox
	conn    *smtp.Conn
	to      []string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Reset()                               { s.to = nil }
func (s *session) Logout() error                        { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if simulatedOutcome(to) == bounceLocalPart {
		return noSuchMailbox
	}
	s.to = append(s.to, to)
	return nil
}

// Data reads a whole mail and then stores it in the mailbox. So a mail that arrives only in part is
// not stored.
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	mail, err := decodeMail(raw)
	if err != nil {
		mail.Text = normalizeText(raw)
	}
	mail.To = strings.Join(s.to, ",")
	s.delayIfSlow()
	s.mailbox.add(mail)
	if s.simulates(unknownLocalPart) { // without an answer, the sender never learns that the mail was accepted
		_ = s.conn.Conn().Close()
	}
	return nil
}

// decodeMail reads the headers and the text and HTML parts of a MIME message. Other parts are left
// out.
func decodeMail(raw []byte) (Mail, error) {
	var m Mail
	r, err := gomail.CreateReader(bytes.NewReader(raw))
	if r == nil {
		return m, err
	}
	if m.Subject, err = r.Header.Subject(); err != nil {
		m.Subject = r.Header.Get("Subject")
	}
	m.ID, _ = r.Header.MessageID()
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil && !message.IsUnknownCharset(err) {
			return m, err
		}
		if err := m.addPart(part); err != nil {
			return m, err
		}
	}
}

func (m *Mail) addPart(part *gomail.Part) error {
	header, ok := part.Header.(*gomail.InlineHeader)
	if !ok {
		return nil // an attachment
	}
	kind, _, err := header.ContentType()
	if err != nil {
		return err
	}
	body, err := io.ReadAll(part.Body)
	if err != nil {
		return err
	}
	switch kind {
	case "text/plain":
		m.Text += normalizeText(body)
	case "text/html":
		m.HTML += normalizeText(body)
	}
	return nil
}

// normalizeText returns valid UTF-8 whose lines end with \n.
func normalizeText(body []byte) string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(body), "\r\n", "\n"), "\uFFFD")
}
