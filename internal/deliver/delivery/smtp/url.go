package smtp

import (
	"net/url"
	"slices"
	"strings"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
)

// ParseURL reads the address of one mail server:
//
//	smtp://user:password@host:587?tls=required&ca=/etc/ssl/private-ca.pem&hello=mail.example.org
//
// The scheme is smtp (STARTTLS, port 587) or smtps (TLS from the first byte, port 465). These are
// the parameters:
//
//   - tls: required (the default), opportunistic or none (the default on loopback hosts); not with
//     smtps
//   - auth: the mechanism of the login, such as plain; by default see openSession
//   - oauth: the client whose tokens replace a password; the caller sets Tokens
//   - ca: a PEM file that replaces the system's authorities
//   - hello: our name in EHLO
//   - conns: how many connections may be open together, 1 to 1,000; by default the number grows
//     while mails wait and the server accepts connections, see Config.MaxConns
//   - conns_min: how many connections are opened without a backlog
//   - per_minute: how many mails may begin within a minute
//
// Special characters of user and password are written as %XX. Errors never quote the URL, since it
// contains the password.
func ParseURL(text string) (Config, error) {
	u, err := delivery.ParseServerURL(text, "smtp", "smtps")
	if err != nil {
		return Config{}, err
	}
	config := Config{Host: u.Hostname(), Username: u.User.Username()}
	config.Password, _ = u.User.Password()
	if err := config.setFromURL(u); err != nil {
		return Config{}, err
	}
	_, err = config.withDefaults()
	return config, err
}

// maxConns is large enough for a private relay. If a mail takes 300 ms, 1,000 connections carry
// 3,300 mails a second.
const maxConns = 1000

// maxPerMinute is more than maxConns connections can carry.
const maxPerMinute = 1_000_000

func (c *Config) setFromURL(u *url.URL) error {
	query, err := delivery.ParseParameters(u.RawQuery, "tls", "auth", "oauth", "ca", "hello", "conns", "conns_min", "per_minute")
	if err != nil {
		return err
	}
	if u.Port() != "" && !delivery.ParseCount(&c.Port, u.Port(), 65535) {
		return delivery.SafeError("the port must be from 1 to 65535")
	}
	if query.Has("conns") && !delivery.ParseCount(&c.MaxConns, query.Get("conns"), maxConns) {
		return delivery.SafeError("conns must be from 1 to 1000")
	}
	if query.Has("conns_min") && !delivery.ParseCount(&c.MinConns, query.Get("conns_min"), maxConns) {
		return delivery.SafeError("conns_min must be from 1 to 1000")
	}
	if query.Has("per_minute") && !delivery.ParseCount(&c.PerMinute, query.Get("per_minute"), maxPerMinute) {
		return delivery.SafeError("per_minute must be from 1 to 1000000")
	}
	c.OAuth, c.Mechanism = query.Get("oauth"), strings.ToUpper(query.Get("auth"))
	if query.Has("auth") && !slices.Contains(mechanisms, c.Mechanism) {
		return delivery.SafeError("auth must be one of " + strings.ToLower(strings.Join(mechanisms, ", ")))
	}
	c.Hello = query.Get("hello")
	if c.RootCAs, err = delivery.LoadCAPool(query.Get("ca")); err != nil {
		return err
	}
	c.TLS, err = parseTLSRequirement(u.Scheme, query, c.Host)
	return err
}

func parseTLSRequirement(scheme string, query url.Values, host string) (tlsRequirement, error) {
	policy, known := map[string]tlsRequirement{
		"required": TLSRequired, "opportunistic": TLSOpportunistic,
		"none": TLSNone,
	}[query.Get("tls")]
	switch given := query.Has("tls"); {
	case scheme == "smtps" && given:
		return 0, delivery.SafeError("smtps is always encrypted: leave tls out")
	case scheme == "smtps":
		return TLSImplicit, nil
	case given && !known:
		return 0, delivery.SafeError("tls must be required, opportunistic or none")
	case !given && loopback.IsHost(host):
		return TLSNone, nil
	}
	return policy, nil
}
