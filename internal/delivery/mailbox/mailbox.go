// Package mailbox is the mail server of a developer's machine: it receives by SMTP on loopback, where no real server is configured,
// the same bytes over the same protocol, keeps them in memory, and plays outcomes that a developer's own mails never have.
package mailbox

import (
	"cmp"
	"errors"
	"io"
	"log"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"sendcode/internal/delivery"
)

// Config bounds a [Mailbox]. Zero fields take the defaults given.
type Config struct {
	// Addr is where it listens: 127.0.0.1:0. Only loopback addresses are taken.
	Addr string
	// Keep is how many mails are held, the newest ones: 200.
	Keep int
	// MaxBytes bounds one mail: 1 MiB. A larger one is refused with 552.
	MaxBytes int64
	// Now gives the time of arrival: time.Now.
	Now func() time.Time
	// Slow is how long a mail to slow@simulator.test takes: 8 s.
	Slow time.Duration
}

// Mail is one received mail, decoded.
type Mail struct {
	// ID is the Message-ID without angle brackets, or a number where the mail has none.
	ID string `json:"id"`
	// At is the time of arrival, UTC.
	At time.Time `json:"at"`
	// To is the envelope's recipient; several are joined by commas.
	To      string `json:"to"`
	Subject string `json:"subject"`
	// Text and HTML are the decoded bodies, lines ending in \n. What cannot be read as MIME is in Text as it came.
	Text string `json:"text"`
	HTML string `json:"html"`
	// Channel is "email" or "sms".
	Channel string `json:"channel"`
}

// Mailbox is the mail server of a developer's machine: it receives by SMTP on loopback and keeps mails in
// memory, codes and all. It must only run where no real server is configured. Safe for concurrent use.
type Mailbox struct {
	config   Config
	listener net.Listener
	server   *smtp.Server
	serving  sync.WaitGroup
	closed   chan struct{}
	close    sync.Once

	mu       sync.Mutex
	mails    []Mail // oldest first
	received int
}

// receiverIdle is how long a client may stay silent; longer than senders keep connections.
const receiverIdle = 5 * time.Minute

// New listens and receives until Close.
func New(config Config) (*Mailbox, error) {
	config = config.filled()
	addr, err := loopbackAddr(config.Addr)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	m := &Mailbox{config: config, listener: listener, closed: make(chan struct{})}
	m.server = m.newServer()
	m.serving.Go(func() { _ = m.server.Serve(listener) }) // ends with the listener
	return m, nil
}

func (c Config) filled() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.Keep = cmp.Or(c.Keep, 200)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	c.Slow = cmp.Or(c.Slow, 8*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// loopbackAddr refuses every address that others could reach, names too, as a name may resolve to anything.
func loopbackAddr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", delivery.Problem("mailbox: the address must be host:port")
	}
	if !delivery.Loopback(host) {
		return "", delivery.Problem("mailbox: it holds codes in the clear, so it listens on loopback only")
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

func (m *Mailbox) newServer() *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &delivered{mailbox: m, conn: c}, nil
	}))
	server.Domain = "localhost"
	server.EnableSMTPUTF8 = true
	server.MaxRecipients = 100 // RFC 5321 section 4.5.3.1.8
	server.MaxMessageBytes = m.config.MaxBytes
	server.ReadTimeout, server.WriteTimeout = receiverIdle, receiverIdle
	server.ErrorLog = log.New(io.Discard, "", 0)
	return server
}

// URL gives the address to send to, for [ParseURL].
func (m *Mailbox) URL() string { return "smtp://" + m.listener.Addr().String() }

// Messages gives the mails that are held, newest first.
func (m *Mailbox) Messages() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	mails := append([]Mail{}, m.mails...) // never nil: it becomes a JSON list
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

// Text takes a text message, which comes without a protocol: To is a phone number, and there is neither subject nor HTML.
func (m *Mailbox) Text(id, to, text string) {
	m.add(Mail{ID: id, To: to, Text: text, Channel: "sms"})
}

func (m *Mailbox) add(mail Mail) {
	if mail.Channel == "" {
		mail.Channel = "email"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received++
	if mail.ID == "" {
		mail.ID = strconv.Itoa(m.received)
	}
	mail.At = m.config.Now().UTC()
	m.mails = append(m.mails, mail)
	if over := len(m.mails) - m.config.Keep; over > 0 {
		m.mails = slices.Delete(m.mails, 0, over)
	}
}
