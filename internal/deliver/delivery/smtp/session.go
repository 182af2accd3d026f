package smtp

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"sendcode/internal/deliver/delivery"
)

// session is one open connection to the server. One goroutine uses it at a time.
type session struct {
	config  Config
	conn    *countedConn
	replies *replyReader
	client  *smtp.Client
	// state is the TLS state, nil in the clear.
	state *tls.ConnectionState
	// unverified is the reason why the certificate is not trusted, if the mode is TLSOpportunistic.
	// It is nil if the certificate is verified.
	unverified error
	// private has the texts that are redacted from replies: the login, and the recipient and
	// content of the last mail.
	private delivery.PrivateData
	// mails counts the messages tried.
	mails int
	// reused is true if the session has served an earlier mail, until the first step of the next
	// one. That step gets keptTimeout.
	reused bool
	// proven is true once pool.noteServed was called for the session. A session that is not proven
	// may be one too many for the server.
	proven bool
	// stale is true if the last transaction failed. Then the next one must send RSET first.
	stale bool
	// unusable is true if the session cannot be used again. The replies may no longer match the
	// commands, or the server may be waiting for content.
	unusable bool
	// lines is a buffer in which commands and content are assembled before they are sent.
	lines []byte
	// expiry closes the session when it has been idle for too long.
	expiry *time.Timer
	// onServed is called when the server has accepted the command MAIL of a mail that a stranger
	// requested; see pool.noteServed.
	onServed func()
	// shouldGiveUpRecipient is Config.shouldGiveUp for the answers to RCPT and DATA, which depend
	// on the recipient.
	shouldGiveUpRecipient func(waited time.Duration) bool
	// idleSince is when the session was last put back into the pool.
	idleSince time.Time
}

// openSession opens a connection, sends EHLO, starts TLS and logs in. If ctx is canceled,
// openSession closes the socket.
//
// Some servers offer SCRAM or CRAM-MD5 but cannot check such a login. If no Mechanism is set and
// the server refuses the login with 535, openSession tries PLAIN or LOGIN, if the server offers one
// of them. It does so once, on a new connection. Later sessions begin with PLAIN or LOGIN, until
// the server refuses that login with 535, too.
func openSession(ctx context.Context, config Config) (*session, *delivery.Error) {
	if config.OAuth != "" {
		return openWithToken(ctx, config)
	}
	before := config.preferPlain.Load()
	s, fail := connect(ctx, config)
	if fail != nil && fail.Stage == delivery.StageAuth && !before && config.preferPlain.Load() {
		return connect(ctx, config)
	}
	return s, fail
}

// connect opens a session like openSession, but tries only once.
func connect(ctx context.Context, config Config) (*session, *delivery.Error) {
	dialing, done := context.WithTimeout(ctx, dialTimeout)
	defer done()
	if shouldGiveUp := config.shouldGiveUp; shouldGiveUp != nil {
		defer time.AfterFunc(shortTimeout, func() {
			if shouldGiveUp(shortTimeout) {
				done()
			}
		}).Stop()
	}
	conn, err := config.Dial(dialing, "tcp", config.Address())
	if err != nil {
		return nil, newError(ctx, delivery.StageDial, err, delivery.PrivateData{})
	}
	s := &session{
		config: config, conn: &countedConn{Conn: conn}, replies: &replyReader{},
		private: delivery.PrivateData{Login: []string{config.Username, config.Password}},
	}
	stop, ready := context.AfterFunc(ctx, s.closeSocket), false
	defer func() {
		stop()
		if !ready {
			s.closeSocket()
		}
	}()
	if fail := s.setUp(ctx); fail != nil {
		return nil, fail
	}
	ready = true
	return s, nil
}

func (s *session) setUp(ctx context.Context) *delivery.Error {
	if fail := s.greet(ctx); fail != nil {
		return fail
	}
	if fail := s.encrypt(ctx); fail != nil {
		return fail
	}
	if s.config.Username == "" {
		return nil
	}
	return s.runStep(ctx, delivery.StageAuth, s.authenticate)
}

// greet reads the greeting and sends EHLO. With smtps it makes the TLS handshake first.
func (s *session) greet(ctx context.Context) *delivery.Error {
	var conn net.Conn = s.conn
	if s.config.TLS == TLSImplicit {
		secure := tls.Client(s.conn, s.tlsConfig())
		fail := s.runStep(ctx, delivery.StageTLS, func() error { return secure.HandshakeContext(ctx) })
		if fail != nil {
			return fail
		}
		state := secure.ConnectionState()
		conn, s.state = secure, &state
	}
	s.replies.source = conn
	fail := s.runStep(ctx, delivery.StageHello, func() (err error) {
		s.client, err = smtp.NewClient(replyConn{conn, s.replies}, s.config.Host)
		if err != nil {
			return err
		}
		return s.client.Hello(s.config.Hello)
	})
	if fail != nil && fail.Status == 0 && s.client == nil && s.config.TLS != TLSImplicit {
		fail.Err = fmt.Errorf("%w: %w", errNoGreeting, fail.Err)
	}
	return fail
}

// encrypt starts TLS by STARTTLS (RFC 3207), as the configuration requires.
func (s *session) encrypt(ctx context.Context) *delivery.Error {
	if s.config.TLS == TLSNone || s.config.TLS == TLSImplicit {
		return nil
	}
	if offered, _ := s.client.Extension("STARTTLS"); !offered {
		if s.config.TLS == TLSOpportunistic {
			return nil
		}
		return &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageTLS, Err: errNoSTARTTLS}
	}
	if fail := s.runStep(ctx, delivery.StageTLS, s.startTLS); fail != nil {
		return fail
	}
	state, _ := s.client.TLSConnectionState()
	s.state = &state
	if s.config.TLS == TLSOpportunistic {
		s.unverified = s.verify(state)
	}
	return nil
}

// startTLS makes the TLS handshake. It fails if unencrypted bytes follow the server's answer to
// STARTTLS, since anyone on the network may have written them.
func (s *session) startTLS() error {
	clear := s.client.Text
	config := s.tlsConfig()
	config.VerifyConnection = func(tls.ConnectionState) error {
		if clear.R.Buffered() > 0 {
			return errInjectedBytes
		}
		return nil
	}
	if err := s.client.StartTLS(config); err != nil {
		return err
	}
	// From here on the replies are inside TLS, so the new reader of replies reads decrypted bytes.
	s.replies = &replyReader{source: s.client.Text.R}
	s.client.Text.R = bufio.NewReader(s.replies)
	return nil
}

// tlsConfig returns the configuration of TLS. In the mode TLSOpportunistic, the configuration
// refuses no certificate. That mode also accepts a connection without TLS, which is even less
// secure.
func (s *session) tlsConfig() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.config.Host, RootCAs: s.config.RootCAs}
	if s.config.TLS == TLSOpportunistic {
		config.MinVersion, config.InsecureSkipVerify = tls.VersionTLS10, true
	}
	return config
}

// verify returns the reason why tlsConfig would refuse the connection in the mode TLSRequired. It
// returns nil if tlsConfig would accept the connection.
func (s *session) verify(state tls.ConnectionState) error {
	if state.Version < tls.VersionTLS12 {
		return errOldTLS
	}
	chain := x509.NewCertPool()
	for _, c := range state.PeerCertificates {
		chain.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: s.config.RootCAs, Intermediates: chain, DNSName: s.config.Host})
	return err
}

// These are timeouts of the parts of the dialogue.
const (
	dialTimeout    = 10 * time.Second // opening the socket
	keptTimeout    = 5 * time.Second  // the first step on a kept connection, which the server may have closed unnoticed
	shortTimeout   = 5 * time.Second  // a step for which shouldGiveUp returns true
	commandTimeout = 30 * time.Second // any other step with all its round trips, or writing the body
	dotTimeout     = 10 * time.Minute // the answer to the final dot (RFC 5321 section 4.5.3.2.6)
	quitTimeout    = time.Second      // QUIT and its reply
)

// runStep runs one step of the dialogue within its timeout. It fails if a reply came before the
// step's command, or if the connection broke within a reply.
func (s *session) runStep(ctx context.Context, stage string, run func() error) *delivery.Error {
	if s.client != nil && s.client.Text.R.Buffered() > 0 {
		return &delivery.Error{Class: delivery.Temporary, Stage: stage, ConnectionEnds: true, Err: errUnsolicited}
	}
	return s.awaitStep(ctx, stage, run)
}

// awaitStep is runStep for a command that was sent earlier, so the reply may have arrived already.
func (s *session) awaitStep(ctx context.Context, stage string, run func() error) *delivery.Error {
	limit := commandTimeout
	switch {
	case stage == delivery.StageDot:
		limit = dotTimeout
	case s.reused:
		limit, s.reused = keptTimeout, false
	}
	var shouldGiveUp func(time.Duration) bool
	switch {
	case s.mails == 0:
		shouldGiveUp = s.config.shouldGiveUp
	case stage == delivery.StageRcpt, stage == delivery.StageData:
		shouldGiveUp = s.shouldGiveUpRecipient
	}
	s.conn.startStep(limit, shouldGiveUp)
	err := run()
	if s.replies.brokenBy != nil {
		return newError(ctx, stage, s.replies.brokenBy, s.private)
	}
	if err != nil {
		return newError(ctx, stage, err, s.private)
	}
	return nil
}

// closeSocket closes the socket without QUIT, which the server might take for a line of a
// half-written mail. Any goroutine may call closeSocket.
func (s *session) closeSocket() { _ = s.conn.Close() }

// quit says QUIT and closes the socket. It ignores errors, since every mail has got its reply.
func (s *session) quit() {
	defer s.closeSocket()
	s.conn.startStep(quitTimeout, nil)
	_ = s.client.Quit()
}
