package mailapi

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
)

// Config names one account with a provider. A zero field means its default.
type Config struct {
	Scheme string // of its URL; it names the provider
	Host   string
	Port   int // by default 443, or 80 in the clear
	// Username and Password are the login: for Resend the password is the API key; for SES they are
	// the ID and the secret of an access key.
	Username, Password string
	// Parameters are the parameters of the URL that only this provider has.
	Parameters map[string]string
	// Cleartext speaks HTTP without TLS, on loopback alone.
	Cleartext bool
	// RootCAs are the authorities that the server's certificate may come from; nil means the
	// system's.
	RootCAs *x509.CertPool
	// MaxConns bounds the requests at once; by default 4.
	MaxConns int
	// Timeout bounds one request; by default 20 s.
	Timeout time.Duration
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now gives the time that requests are signed with; nil: time.Now.
	Now func() time.Time
}

const (
	defaultConns = 4
	maxConns     = 1000
)

// ParseURL parses the URL of an account, such as resend://:key@api.resend.com. Its user, password and
// host depend on the provider.
//
// conns is how many requests may be under way at once, 1 to 1,000. Another host, port and tls=none,
// which is the default on loopback hosts, are for tests and for proxies on this machine; ca is a
// PEM file that takes the place of the system's authorities. Characters of user and password that
// have a meaning in URLs are written as %XX. Errors never quote the URL, it holds the key.
func ParseURL(text string) (Config, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // url.Error quotes its input
		return Config{}, delivery.SafeError("malformed (write special characters in user and password as %XX)")
	case !IsProviderScheme(u.Scheme):
		return Config{}, delivery.SafeError("the scheme must be " + strings.Join(Schemes(), " or "))
	case u.Opaque != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "":
		return Config{}, delivery.SafeError(
			"must be scheme://user:password@host:port?parameters (write special characters in user and password as %XX)")
	}
	c := Config{Scheme: u.Scheme, Host: u.Hostname(), Username: u.User.Username(), Parameters: map[string]string{}}
	c.Password, _ = u.User.Password()
	if err := c.setFromURL(u); err != nil {
		return Config{}, err
	}
	_, err = c.openProvider()
	return c, err
}

func (c *Config) setFromURL(u *url.URL) error {
	query, err := delivery.ParseParameters(u.RawQuery)
	if err != nil {
		return err
	}
	known := append([]string{"tls", "ca", "conns"}, providersByScheme[c.Scheme].parameters...)
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return delivery.SafeError("unknown parameter (known: " + strings.Join(known, ", ") + ")")
		case len(values) > 1:
			return delivery.SafeError("a parameter is given twice")
		case slices.Contains(providersByScheme[c.Scheme].parameters, name):
			c.Parameters[name] = values[0]
		}
	}
	if u.Port() != "" {
		if c.Port, err = strconv.Atoi(u.Port()); err != nil || c.Port < 1 || c.Port > 65535 {
			return delivery.SafeError("the port is not within 1 to 65535")
		}
	}
	if query.Has("conns") {
		if c.MaxConns, err = strconv.Atoi(query.Get("conns")); err != nil || c.MaxConns < 1 || c.MaxConns > maxConns {
			return delivery.SafeError("conns is not within 1 to 1000")
		}
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

// openProvider fills in the defaults and returns the provider's providerAPI. The error is the first thing
// that is wrong; it has no credentials.
func (c *Config) openProvider() (providerAPI, error) {
	if !IsProviderScheme(c.Scheme) {
		return nil, delivery.SafeError("the provider is not known")
	}
	c.MaxConns = cmp.Or(c.MaxConns, defaultConns)
	if c.Now == nil {
		c.Now = time.Now
	}
	a, err := providersByScheme[c.Scheme].open(c)
	switch {
	case err != nil:
		return nil, err
	case c.Cleartext && !loopback.IsHost(c.Host):
		return nil, delivery.SafeError("a key with tls=none would cross the network in the clear")
	}
	return a, nil
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

// String gives scheme and address alone: the credentials are masked.
func (c Config) String() string { return c.Scheme + "://" + c.Address() }

// GoString masks the credentials in %#v.
func (c Config) GoString() string { return c.String() }

// LogValue masks the credentials in logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
