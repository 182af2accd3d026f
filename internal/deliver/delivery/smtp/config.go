package smtp

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/oauth"
)

// tlsRequirement says how the connection is encrypted. The zero value is the strict one.
type tlsRequirement int

const (
	// TLSRequired: STARTTLS must be offered, and the certificate must be valid for the host.
	TLSRequired tlsRequirement = iota
	// TLSOpportunistic means STARTTLS with any certificate if the server offers STARTTLS. Otherwise
	// the connection is not encrypted (RFC 7435).
	TLSOpportunistic
	// TLSNone: in the clear.
	TLSNone
	// TLSImplicit: TLS from the first byte (smtps, RFC 8314).
	TLSImplicit
)

// Config names one mail server and how to talk to it. A zero field means its default.
type Config struct {
	Host string
	// Port is by default 587, or 465 for TLSImplicit.
	Port int
	TLS  tlsRequirement
	// RootCAs are the authorities that the server's certificate may come from; nil means the
	// system's.
	RootCAs *x509.CertPool
	// Username and Password are for the login. If Username is empty, there is no login. The login
	// uses Mechanism. If Mechanism is empty, the login uses the strongest mechanism that the server
	// offers. Without a verified certificate, a login is only possible at a loopback address.
	Username, Password string
	Mechanism          string
	// OAuth is the name of the OAuth client; empty means no client. With a client, Username logs in
	// with a token from Tokens, and not with a password.
	OAuth  string
	Tokens *oauth.Source
	// preferPlain is true if the next session must begin its login with PLAIN or LOGIN; see
	// openSession. It is set after a login by a mechanism that does not show the password to the
	// server, if the server refuses this login with the reply 535 and also offers PLAIN or
	// LOGIN. withDefaults sets the pointer.
	preferPlain *atomic.Bool
	// shouldGiveUp decides whether to give up a server that is silent while a connection is opened.
	// The parameter waited is how long the server has been silent. If shouldGiveUp returns true,
	// the attempt ends. If shouldGiveUp is nil, the attempt never ends early.
	shouldGiveUp func(waited time.Duration) bool
	// Hello is the name that the service gives in EHLO, by default "localhost". A public relay
	// expects the sending domain here.
	Hello string

	// MaxConns is the maximum number of connections open at once. By default the number is dynamic:
	// it begins with MinConns, and rises to at most 20 if mails wait and the server accepts
	// connections. At Microsoft's hosts the default is 3.
	MaxConns int
	// beginConns is how many connections may be open at once before the server has shown that it
	// accepts more. It is MaxConns if that is set, otherwise MinConns. withDefaults sets
	// beginConns.
	beginConns int
	// MinConns is how many connections are opened without a backlog. Each of them is opened as soon
	// as a mail finds no free connection. The default is 4, or MaxConns if that is less than 4.
	// These connections stay open for 30 s without work. Further connections are opened only for
	// mails that have waited, and are closed soon after the backlog.
	MinConns int
	// MaxMails bounds the mails over one connection; by default 100.
	MaxMails int
	// PerMinute is the maximum number of mails within any minute. By default there is no maximum,
	// except 30 for a login at Microsoft.
	PerMinute int

	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultConns    = 4
	maxGrownConns   = 20  // the most connections if their number follows the server
	microsoftConns  = 3   // for each mailbox of Exchange Online
	microsoftPace   = 30  // mails a minute, for each mailbox of Exchange Online
	portSubmission  = 587 // RFC 6409
	portSubmissions = 465 // RFC 8314
)

// String returns only scheme and address, without user name and password.
func (c Config) String() string {
	c, _ = c.withDefaults()
	if c.TLS == TLSImplicit {
		return "smtps://" + c.Address()
	}
	return "smtp://" + c.Address()
}

// GoString masks the password in %#v.
func (c Config) GoString() string { return c.String() }

// LogValue masks the password in logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Address returns host:port.
func (c Config) Address() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.port())) }

func (c Config) port() int {
	if c.TLS == TLSImplicit {
		return cmp.Or(c.Port, portSubmissions)
	}
	return cmp.Or(c.Port, portSubmission)
}

// microsoftHosts are the hosts where Microsoft is ending logins with passwords. The host
// smtp-hve.office365.com does not belong to them.
var microsoftHosts = regexp.MustCompile(`(?i)^(smtp|smtp-legacy|smtp-mail|outlook)\.(office365\.(com|us)|(outlook|hotmail|live)\.com)\.?$`)

// Hint returns advice in three cases: the port does not fit the kind of encryption, the server will
// soon accept no passwords, or the login may be impossible. Otherwise it returns "".
func (c Config) Hint() string {
	switch implicit := c.TLS == TLSImplicit; {
	case c.Username != "" && c.TLS == TLSOpportunistic && !loopback.IsHost(c.Host):
		return "the service logs in only under a verified certificate, so with a user tls=opportunistic may send nothing: set tls=required"
	case !implicit && c.port() == portSubmissions:
		return "port 465 is for TLS from the first byte: write smtps://, or port 587"
	case implicit && c.port() == portSubmission:
		return "port 587 is for STARTTLS: write smtp://, or port 465"
	case c.Password != "" && microsoftHosts.MatchString(c.Host):
		return "Microsoft turns logins by password (basic SMTP AUTH) off at the end of December 2026: set oauth in the URL " +
			"(docs/mail-servers.md#microsoft-365), or use a connector that needs no login"
	}
	return ""
}

// withDefaults returns the configuration with defaults in its zero fields. The error is the first
// mistake in the configuration; it has no credentials.
func (c Config) withDefaults() (Config, error) {
	c.Port = c.port()
	c.preferPlain = cmp.Or(c.preferPlain, new(atomic.Bool))
	c.Hello = cmp.Or(c.Hello, "localhost")
	if microsoftHosts.MatchString(c.Host) {
		c.MaxConns = cmp.Or(c.MaxConns, microsoftConns)
		if c.Username != "" {
			c.PerMinute = cmp.Or(c.PerMinute, microsoftPace)
		}
	}
	c.beginConns = c.MaxConns
	c.MaxConns = cmp.Or(c.MaxConns, maxGrownConns)
	c.MinConns = cmp.Or(c.MinConns, min(defaultConns, c.MaxConns))
	c.beginConns = cmp.Or(c.beginConns, c.MinConns)
	c.MaxMails = cmp.Or(c.MaxMails, 100)
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	switch {
	case c.Host == "" || strings.ContainsFunc(c.Host, isForbiddenInCommand):
		return c, delivery.SafeError("smtp: the host name is missing or malformed")
	case strings.ContainsFunc(c.Hello, isForbiddenInCommand):
		return c, delivery.SafeError("smtp: the name for EHLO is malformed")
	case c.OAuth != "" && (c.Username == "" || c.Password != "" || c.Mechanism != "" ||
		strings.ContainsFunc(c.Username, unicode.IsControl)):
		return c, delivery.SafeError("smtp: oauth needs a user name, without a password and auth")
	case c.OAuth == "" && (c.Username == "") != (c.Password == ""):
		return c, delivery.SafeError("smtp: set both user name and password, or neither")
	case c.Username != "" && c.TLS == TLSNone && !loopback.IsHost(c.Host):
		return c, delivery.SafeError("smtp: tls=none would send the login unencrypted")
	case c.MinConns > c.MaxConns:
		return c, delivery.SafeError("smtp: conns_min is more than conns")
	}
	return c, nil
}

// isForbiddenInCommand reports whether r cannot be part of a host name or address literal in a
// command.
func isForbiddenInCommand(r rune) bool {
	return r <= ' ' || r > '~' || r == '<' || r == '>'
}
