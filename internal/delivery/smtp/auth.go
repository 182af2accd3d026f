package smtp

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"

	"github.com/wneessen/go-mail/smtp"
)

// authenticate logs in (RFC 4954). Without TLS it refuses, unless the peer is this machine.
func (s *session) authenticate() error {
	if s.state == nil && !s.peerIsLoopback() {
		return errCleartextLogin
	}
	_, offered := s.client.Extension("AUTH")
	mechanism := chooseMechanism(strings.Fields(strings.ToUpper(offered)), s.config, s.state)
	if mechanism == nil {
		return errNoAuth
	}
	return s.client.Auth(mechanism)
}

// peerIsLoopback reports whether the peer's address is on loopback. It does not trust the configured
// name, which may resolve to any address.
func (s *session) peerIsLoopback() bool {
	tcp, ok := s.conn.RemoteAddr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// chooseMechanism returns the strongest mechanism on offer, nil if none is known: first those that
// do not show the server the password, channel binding before none (RFC 5802; under TLS 1.3 by RFC
// 9266).
func chooseMechanism(offered []string, config Config, state *tls.ConnectionState) smtp.Auth {
	user, password := config.Username, config.Password
	bound := state != nil && state.Version >= tls.VersionTLS13
	has := func(name string) bool { return slices.Contains(offered, name) }
	switch {
	case bound && has("SCRAM-SHA-256-PLUS"):
		return smtp.ScramSHA256PlusAuth(user, password, state)
	case has("SCRAM-SHA-256"):
		return smtp.ScramSHA256Auth(user, password)
	case bound && has("SCRAM-SHA-1-PLUS"):
		return smtp.ScramSHA1PlusAuth(user, password, state)
	case has("SCRAM-SHA-1"):
		return smtp.ScramSHA1Auth(user, password)
	case has("CRAM-MD5"):
		return smtp.CRAMMD5Auth(user, password)
	case has("PLAIN"):
		return smtp.PlainAuth("", user, password, config.Host, true) // authenticate has looked at the encryption
	case has("LOGIN"):
		return smtp.LoginAuth(user, password, config.Host, true)
	}
	return nil
}
