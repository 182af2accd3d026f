package mailapi

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
)

// Scheme is the scheme of an account's URL.
const Scheme = "resend"

// Config names one account with Resend. A zero field means its default.
type Config struct {
	Host     string // by default api.resend.com
	Port     int    // by default 443, or 80 in the clear
	Username string // must be empty
	Password string // the API key
	// Cleartext means HTTP without TLS, which is allowed only on loopback.
	Cleartext bool
	// RootCAs are the authorities that may have issued the server's certificate. If RootCAs is nil,
	// the authorities of the system are used.
	RootCAs *x509.CertPool
	// MaxConns bounds the requests at once; by default 4.
	MaxConns int
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultConns = 4
	maxConns     = 1000
)

// ParseURL parses the URL of an account, such as resend://:key@api.resend.com. The password in the
// URL is the API key.
//
// The URL may have these parameters:
//
//   - conns is the greatest number of requests at the same time, 1 to 1,000.
//   - tls=none turns off encryption. It is the default on loopback hosts and is not allowed on
//     other hosts.
//   - ca is a PEM file with authorities that replace the authorities of the system.
//
// Another host or port, and tls=none, are for tests and for proxies on this machine. Special
// characters in user and password must be written as %XX. The URL contains the key, so errors never
// quote the URL.
func ParseURL(text string) (Config, error) {
	u, err := delivery.ParseServerURL(text, Scheme)
	if err != nil {
		return Config{}, err
	}
	c := Config{Host: u.Hostname(), Username: u.User.Username()}
	c.Password, _ = u.User.Password()
	if err := c.setFromURL(u); err != nil {
		return Config{}, err
	}
	err = c.complete()
	return c, err
}

func (c *Config) setFromURL(u *url.URL) error {
	query, err := delivery.ParseParameters(u.RawQuery, "tls", "ca", "conns")
	if err != nil {
		return err
	}
	if u.Port() != "" && !delivery.ParseCount(&c.Port, u.Port(), 65535) {
		return delivery.SafeError("the port must be from 1 to 65535")
	}
	if query.Has("conns") && !delivery.ParseCount(&c.MaxConns, query.Get("conns"), maxConns) {
		return delivery.SafeError("conns must be from 1 to 1000")
	}
	switch tls := query.Get("tls"); {
	case query.Has("tls") && tls != "required" && tls != "none":
		return delivery.SafeError("tls must be required or none")
	default:
		c.Cleartext = tls == "none" || tls == "" && loopback.IsHost(c.Host)
	}
	c.RootCAs, err = delivery.LoadCAPool(query.Get("ca"))
	return err
}

// complete fills in the defaults. If the settings are invalid, the error describes the first fault,
// without credentials.
func (c *Config) complete() error {
	c.MaxConns, c.Host = cmp.Or(c.MaxConns, defaultConns), cmp.Or(c.Host, "api.resend.com")
	switch {
	case c.Username != "" || c.Password == "":
		return delivery.SafeError("must be resend://:key@api.resend.com, with the API key as the password")
	case c.Cleartext && !loopback.IsHost(c.Host):
		return delivery.SafeError("tls=none would send the key unencrypted")
	}
	return nil
}

// endpoint returns the URL of a path.
func (c *Config) endpoint(path string) string {
	u := url.URL{Scheme: "https", Host: c.Host, Path: path}
	if c.Cleartext {
		u.Scheme = "http"
	}
	if strings.Contains(c.Host, ":") { // an IPv6 address
		u.Host = "[" + c.Host + "]"
	}
	if c.Port != 0 {
		u.Host = net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	}
	return u.String()
}

// Address returns host:port.
func (c *Config) Address() string {
	port := 443
	if c.Cleartext {
		port = 80
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(cmp.Or(c.Port, port)))
}

// String returns only the scheme and the address, without the credentials.
func (c Config) String() string { return Scheme + "://" + c.Address() }

// GoString masks the credentials in %#v.
func (c Config) GoString() string { return c.String() }

// LogValue masks the credentials in logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
