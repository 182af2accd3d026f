package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
)

// address is a parsed URL. url and query lack what go-redis doesn't read: all hosts but the first,
// the part of the scheme after "+", and ca.
type address struct {
	url   *url.URL
	query url.Values
	rest  string         // path and query, as the URL has them
	hosts []string       // host:port
	pool  *x509.CertPool // certificate authorities; nil: the system's
}

func parse(rawURL, defaultPort string, refused ...string) (a address, err error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	scheme, _, _ = strings.Cut(scheme, "+")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	start := strings.LastIndex(rest[:end], "@") + 1
	a.rest, a.hosts = rest[end:], strings.Split(rest[start:end], ",")
	for i, host := range a.hosts {
		u, err := url.Parse(scheme + "://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host {
			return a, fmt.Errorf("redis URL: host %d is not of the form host or host:port", i+1)
		}
		if u.Port() == "" {
			a.hosts[i] = net.JoinHostPort(u.Hostname(), defaultPort)
		}
	}
	if a.url, err = url.Parse(scheme + "://" + rest[:start] + a.hosts[0] + a.rest); err != nil {
		return a, errNotURL
	}
	a.query = a.url.Query()
	for _, name := range refused {
		if a.query.Has(name) {
			return a, fmt.Errorf("redis URL: there is no parameter %q", name)
		}
	}
	for name, value := range defaults {
		a.setDefault(name, value)
	}
	err = a.readCA()
	return a, err
}

func (a *address) setDefault(name, value string) {
	if a.query.Get(name) == "" {
		a.query.Set(name, value)
	}
}

func (a *address) text() string {
	a.url.RawQuery = a.query.Encode()
	return a.url.String()
}

// redact replaces err if it might show part of a password: after an unescaped character in a
// password, the rest is parsed as path or query.
func (a *address) redact(err error) error {
	if strings.Contains(a.rest, "@") || strings.Contains(a.rest, "sentinel_password") {
		return errNotURL
	}
	return fmt.Errorf("redis URL: %w", err)
}

// readCA reads the certificate authorities. Its errors don't show the path, which may be part of a
// password that has an unescaped "&".
func (a *address) readCA() error {
	files := a.query["ca"]
	a.query.Del("ca")
	switch {
	case len(files) == 0:
		return nil
	case len(files) > 1:
		return errors.New("redis URL: ca is given twice")
	case a.url.Scheme != "rediss":
		return errors.New("redis URL: ca needs TLS: the URL must begin with rediss")
	case files[0] == "":
		return errors.New("redis URL: ca names no file")
	}
	pem, err := os.ReadFile(files[0])
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	if err != nil {
		return fmt.Errorf("redis URL: ca names a file that cannot be read: %w", err)
	}
	a.pool = x509.NewCertPool()
	if !a.pool.AppendCertsFromPEM(pem) {
		return errors.New("redis URL: ca names a file without a certificate in PEM form")
	}
	return nil
}

// trust sets up TLS, if c isn't nil. Certificates must match name or, if name is empty, the dialled
// host.
func (a *address) trust(c *tls.Config, name string) {
	if c != nil {
		c.MinVersion, c.RootCAs, c.ServerName = tls.VersionTLS12, a.pool, name
	}
}
