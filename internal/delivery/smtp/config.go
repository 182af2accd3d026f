package smtp

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"sendcode/internal/delivery"
)

// TLSPolicy says how the connection is encrypted. The zero value is the strict one.
type TLSPolicy int

const (
	// TLSRequired: STARTTLS must be offered, and the certificate must be valid for the host.
	TLSRequired TLSPolicy = iota
	// TLSOpportunistic: STARTTLS, verified, where it is offered; in the clear where it is not.
	TLSOpportunistic
	// TLSNone: in the clear.
	TLSNone
	// TLSImplicit: TLS from the first byte (smtps, RFC 8314).
	TLSImplicit
)

// String gives the value of the tls parameter of [ParseURL]; "implicit" for smtps.
func (p TLSPolicy) String() string {
	switch p {
	case TLSRequired:
		return "required"
	case TLSOpportunistic:
		return "opportunistic"
	case TLSNone:
		return "none"
	case TLSImplicit:
		return "implicit"
	}
	return "tls(" + strconv.Itoa(int(p)) + ")"
}

// Config names one mail server and how to talk to it. Zero fields take the defaults given.
type Config struct {
	Host string
	// Port is 587, or 465 for TLSImplicit.
	Port int
	TLS  TLSPolicy
	// RootCAs are the authorities that the server's certificate may come from; nil means the system's.
	RootCAs *x509.CertPool
	// Username and Password log in, if Username is set: by the strongest mechanism that is offered, and in the
	// clear only to a loopback address.
	Username, Password string
	// Hello is our name in EHLO: "localhost". A public relay wants the sending domain here.
	Hello string

	// MaxConns bounds the connections open at once: 4.
	MaxConns int
	// MinConns are opened as soon as a mail has none, and kept for 30 s without work: 4, or MaxConns where that is less. The others
	// are opened for mails that wait, and end soon after the backlog.
	MinConns int
	// MaxMails bounds the mails over one connection: 100.
	MaxMails int

	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultConns    = 4
	portSubmission  = 587 // RFC 6409
	portSubmissions = 465 // RFC 8314
)

// String gives the configuration as a URL with the password masked.
func (c Config) String() string {
	u := url.URL{Scheme: "smtp", Host: c.address()}
	query := url.Values{"tls": {c.TLS.String()}}
	if c.TLS == TLSImplicit {
		u.Scheme, query = "smtps", url.Values{}
	}
	if c.Hello != "" {
		query.Set("hello", c.Hello)
	}
	if c.MaxConns != 0 && c.MaxConns != defaultConns {
		query.Set("conns", strconv.Itoa(c.MaxConns))
	}
	if c.MinConns != 0 && c.MinConns != c.defaultMin() {
		query.Set("conns_min", strconv.Itoa(c.MinConns))
	}
	u.RawQuery = query.Encode()
	if c.Username == "" {
		return u.String()
	}
	return u.Scheme + "://" + url.PathEscape(c.Username) + ":***@" + strings.TrimPrefix(u.String(), u.Scheme+"://")
}

// GoString masks the password in %#v.
func (c Config) GoString() string { return c.String() }

// LogValue masks the password in logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) address() string {
	port := c.Port
	if port == 0 {
		port = defaultPort(c.TLS)
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(port))
}

func defaultPort(policy TLSPolicy) int {
	if policy == TLSImplicit {
		return portSubmissions
	}
	return portSubmission
}

// filled gives the configuration with the defaults in the zero fields.
func (c Config) filled() Config {
	c.Port = cmp.Or(c.Port, defaultPort(c.TLS))
	c.Hello = cmp.Or(c.Hello, "localhost")
	c.MaxConns = cmp.Or(c.MaxConns, defaultConns)
	c.MinConns = cmp.Or(c.MinConns, c.defaultMin())
	c.MaxMails = cmp.Or(c.MaxMails, 100)
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	return c
}

// defaultMin is MinConns where it is not given.
func (c Config) defaultMin() int {
	if c.MaxConns == 0 {
		return defaultConns
	}
	return min(defaultConns, c.MaxConns)
}

// check gives the first thing that is wrong, without naming the credentials.
func (c Config) check() error {
	switch {
	case c.Host == "" || strings.ContainsFunc(c.Host, unfitInCommand):
		return delivery.Problem("smtp: the host name is missing or malformed")
	case c.Port < 1 || c.Port > 65535:
		return delivery.Problem("smtp: the port is not within 1 to 65535")
	case c.TLS < TLSRequired || c.TLS > TLSImplicit:
		return delivery.Problem("smtp: unknown TLS policy")
	case strings.ContainsFunc(c.Hello, unfitInCommand):
		return delivery.Problem("smtp: the name for EHLO is malformed")
	case (c.Username == "") != (c.Password == ""):
		return delivery.Problem("smtp: user name and password go together")
	case c.Username != "" && c.TLS == TLSNone && !delivery.Loopback(c.Host):
		return delivery.Problem("smtp: a password with tls=none would cross the network in the clear")
	case c.MaxConns < 1 || c.MaxMails < 1 || c.MinConns < 1:
		return delivery.Problem("smtp: limits must be positive")
	case c.MinConns > c.MaxConns:
		return delivery.Problem("smtp: conns_min is more than conns")
	}
	return nil
}

// unfitInCommand holds for all that cannot be part of a host name or address literal in a command.
func unfitInCommand(r rune) bool {
	return r <= ' ' || r > '~' || r == '<' || r == '>'
}
