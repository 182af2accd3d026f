// Package mailbox is a mail server for a developer's machine. The service uses it when no other
// mail server is configured. The mailbox receives mails by SMTP on loopback and stores them in
// memory. For some recipients, it simulates an outcome, such as a bounce.
package mailbox

import (
	"errors"
	"io"
	"log"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// Mail is one received mail, decoded.
type Mail struct {
	// ID is the Message-ID without angle brackets. If the mail has no Message-ID, ID is a number.
	ID string `json:"id"`
	// At is the time of arrival, UTC.
	At time.Time `json:"at"`
	// To is the recipient of the SMTP envelope. If there are several recipients, To has all of them
	// with commas between them.
	To      string `json:"to"`
	Subject string `json:"subject"`
	// Text and HTML are the decoded bodies. Their lines end in \n. If the mail is not valid MIME,
	// Text has the undecoded mail.
	Text string `json:"text"`
	HTML string `json:"html"`
	// Channel is "email" or "sms".
	Channel string `json:"channel"`
	// Code is the code in the message; "" if there is none.
	Code string `json:"code"`
}

// Mailbox receives mails by SMTP on loopback, and text messages by AddText. It keeps them in memory
// with their codes. Safe for concurrent use.
type Mailbox struct {
	slow     time.Duration // how long a mail to slow@simulator.test takes
	listener net.Listener
	server   *smtp.Server
	serving  sync.WaitGroup
	closed   chan struct{}
	close    sync.Once

	mu       sync.Mutex
	mails    []Mail // oldest first
	received int
}

const (
	// maxMails is how many mails and text messages are kept; the oldest are dropped.
	maxMails = 200
	// maxMailBytes bounds one mail. A larger one is refused with 552.
	maxMailBytes = 1 << 20
	// clientIdleTimeout is how long a client may be silent. It is longer than the time for which
	// senders keep idle connections open.
	clientIdleTimeout = 5 * time.Minute
)

// Listen opens a free port of 127.0.0.1 and receives mails until Close. The mails contain codes in
// the clear, so other machines must not be able to connect.
func Listen() (*Mailbox, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &Mailbox{slow: 8 * time.Second, listener: listener, closed: make(chan struct{})}
	m.server = m.newServer()
	m.serving.Go(func() { _ = m.server.Serve(listener) }) // returns when the listener closes
	return m, nil
}

func (m *Mailbox) newServer() *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{mailbox: m, conn: c}, nil
	}))
	server.Domain = "localhost"
	server.EnableSMTPUTF8 = true
	server.MaxRecipients = 100 // RFC 5321 section 4.5.3.1.8
	server.MaxMessageBytes = maxMailBytes
	server.ReadTimeout, server.WriteTimeout = clientIdleTimeout, clientIdleTimeout
	server.ErrorLog = log.New(io.Discard, "", 0)
	return server
}

// URL returns the address to send to, for smtp.ParseURL.
func (m *Mailbox) URL() string { return "smtp://" + m.listener.Addr().String() }

// Messages returns the mails that are kept, newest first; never nil.
func (m *Mailbox) Messages() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	mails := append([]Mail{}, m.mails...) // an empty list, not nil, so that JSON has a list
	slices.Reverse(mails)
	return mails
}

// Close ends the listener and every connection. The mails stay readable.
func (m *Mailbox) Close() error {
	m.close.Do(func() { close(m.closed) })
	err := errors.Join(m.listener.Close(), m.server.Close())
	m.serving.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, smtp.ErrServerClosed) {
		return nil
	}
	return err
}

// AddText keeps a text message with its code in the mailbox. The service calls AddText directly,
// without SMTP. The parameter to is a phone number. The message has neither subject nor HTML.
func (m *Mailbox) AddText(id, to, text, code string) {
	m.add(Mail{ID: id, To: to, Text: text, Channel: "sms", Code: code})
}

// codeLinePattern matches a line of a mail's text that consists of a code. A code consists of
// digits, or of letters without vowels.
var codeLinePattern = regexp.MustCompile(`(?m)^(\d{4,16}|[B-DF-HJ-NP-TV-XZ]{4,16})$`)

func (m *Mailbox) add(mail Mail) {
	if mail.Channel == "" {
		mail.Channel, mail.Code = "email", codeLinePattern.FindString(mail.Text)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received++
	if mail.ID == "" {
		mail.ID = strconv.Itoa(m.received)
	}
	mail.At = time.Now().UTC()
	m.mails = append(m.mails, mail)
	if over := len(m.mails) - maxMails; over > 0 {
		m.mails = slices.Delete(m.mails, 0, over)
	}
}
