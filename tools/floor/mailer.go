package main

import (
	"net"
	"net/textproto"
)

// mailer is one connection to the mail server, which must offer PIPELINING (RFC 2920).
type mailer struct{ *textproto.Conn }

func dialMail(address string) (*mailer, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &mailer{textproto.NewConn(conn)}
	if _, _, err := m.ReadResponse(220); err != nil {
		return nil, err
	}
	return m, m.say("EHLO floor\r\n", 250)
}

// say sends the text at once, and then reads one reply for each code. It fails at a reply with
// another code.
func (m *mailer) say(text string, replies ...int) error {
	if _, err := m.W.WriteString(text); err != nil {
		return err
	}
	if err := m.W.Flush(); err != nil {
		return err
	}
	for _, expected := range replies {
		if _, _, err := m.ReadResponse(expected); err != nil {
			return err
		}
	}
	return nil
}

func (m *mailer) mail(to string, text []byte) error {
	if err := m.say("MAIL FROM:<no-reply@localhost>\r\nRCPT TO:<"+to+">\r\nDATA\r\n", 250, 250, 354); err != nil {
		return err
	}
	if _, err := m.W.Write(text); err != nil {
		return err
	}
	return m.say(".\r\n", 250)
}
