package smtp

import (
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wneessen/go-mail/smtp"

	"sendcode/internal/deliver/delivery"
)

// authenticate logs in (RFC 4954). Unless the peer is this machine, it logs in only if the
// connection uses TLS and the server's certificate was verified. Without this rule, an attacker on
// the network could forge the refusal of a stronger mechanism and then read the password. If the
// server refuses the login with 535, authenticate may set config.preferPlain. Then the next session
// logs in with PLAIN or LOGIN, and not with a stronger mechanism.
func (s *session) authenticate() error {
	peer, ok := s.conn.RemoteAddr().(*net.TCPAddr) // the configured name may resolve to any address
	switch {
	case ok && peer.IP.IsLoopback():
	case s.state == nil:
		return errCleartextLogin
	case s.unverified != nil:
		return delivery.SafeError("refusing to log in without a verified certificate: " + s.unverified.Error())
	}
	_, extension := s.client.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(extension))
	name := chooseMechanism(offered, s.config, s.state)
	switch {
	case name == "" && s.config.OAuth != "":
		return errNoOAuth
	case name == "" && slices.Contains(offered, "XOAUTH2"):
		return errOAuth
	case name == "":
		return errNoAuth
	}
	if s.config.OAuth != "" {
		return s.showToken(name)
	}
	err := s.client.Auth(newMechanism(name, s.config, s.state))
	if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code == 535 && s.config.Mechanism == "" {
		s.config.preferPlain.Store(!showsPassword(name) && slices.ContainsFunc(offered, showsPassword))
	}
	return err
}

// mechanisms are the known mechanisms, the strongest first. The last two show the password to the
// server. Mechanisms with channel binding (-PLUS, RFC 5802) are used only with TLS 1.3 (RFC 9266).
var mechanisms = []string{
	"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-1", "CRAM-MD5", "PLAIN",
	"LOGIN",
}

func showsPassword(mechanism string) bool { return mechanism == "PLAIN" || mechanism == "LOGIN" }

// chooseMechanism returns the strongest mechanism that the server offers and the configuration
// allows. It returns "" if there is no such mechanism.
func chooseMechanism(offered []string, config Config, state *tls.ConnectionState) string {
	if config.OAuth != "" {
		for _, name := range tokenMechanisms {
			if slices.Contains(offered, name) {
				return name
			}
		}
		return ""
	}
	show := config.preferPlain != nil && config.preferPlain.Load() && slices.ContainsFunc(offered, showsPassword)
	for _, name := range mechanisms {
		bound := strings.HasSuffix(name, "-PLUS")
		if slices.Contains(offered, name) && (config.Mechanism == "" || name == config.Mechanism) &&
			(!show || showsPassword(name)) && (!bound || state != nil && state.Version >= tls.VersionTLS13) {
			return name
		}
	}
	return ""
}

func newMechanism(name string, config Config, state *tls.ConnectionState) smtp.Auth {
	user, password := config.Username, config.Password
	switch name {
	case "SCRAM-SHA-256-PLUS":
		return smtp.ScramSHA256PlusAuth(user, password, state)
	case "SCRAM-SHA-256":
		return smtp.ScramSHA256Auth(user, password)
	case "SCRAM-SHA-1-PLUS":
		return smtp.ScramSHA1PlusAuth(user, password, state)
	case "SCRAM-SHA-1":
		return smtp.ScramSHA1Auth(user, password)
	case "CRAM-MD5":
		return smtp.CRAMMD5Auth(user, password)
	case "PLAIN":
		return smtp.PlainAuth("", user, password, config.Host, true) // true: authenticate has checked the encryption
	}
	return smtp.LoginAuth(user, password, config.Host, true)
}
