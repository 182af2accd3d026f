package mailserver

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi"
	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/deliver/delivery/smtp"
)

// Config is one configured mail server.
type Config struct {
	Host    string
	Address string // host:port
	// API is true if the URL belongs to a provider's HTTPS API. Mails of an API leave from other
	// hosts than Host.
	API bool
	// OAuth names the client whose tokens are used for the login; empty: none.
	OAuth string
	// RequiresTLS is false if mails may go to the server in the clear.
	RequiresTLS bool
	// Hint is advice if the URL may not work now or soon. Otherwise Hint is empty.
	Hint string
	// Open makes the server without connecting to it. The parameter hello is the name that EHLO
	// sends, unless the URL has another name.
	Open func(hello string) (Server, error)
	// Examine connects and logs in like a server that Open has made. With SMTP it also tests each
	// of the senders. It sends no mail.
	Examine func(ctx context.Context, hello string, senders []string) (delivery.Encryption, error)
}

// ParseURLs parses a list of mail server URLs that are separated by commas. The first URL is the
// preferred one. Each URL must be valid for smtp.ParseURL or mailapi.ParseURL. If a URL names an
// OAuth client that is missing in tokens, the server can't log in. Errors never quote a URL,
// because it contains a password.
func ParseURLs(list string, tokens oauth.Sources) ([]Config, error) {
	var configs []Config
	for n, text := range strings.Split(list, ",") {
		config, err := parseURL(strings.TrimSpace(text), tokens)
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", n+1, err)
		}
		configs = append(configs, config)
	}
	return configs, nil
}

func parseURL(text string, tokens oauth.Sources) (Config, error) {
	scheme, _, _ := strings.Cut(text, ":")
	switch {
	case scheme == "smtp", scheme == "smtps":
		c, err := smtp.ParseURL(text)
		c.Tokens = tokens[c.OAuth]
		named := func(hello string) smtp.Config { c := c; c.Hello = cmp.Or(c.Hello, hello); return c }
		return Config{
			Host: c.Host, Address: c.Address(), OAuth: c.OAuth, RequiresTLS: c.TLS == smtp.TLSRequired || c.TLS == smtp.TLSImplicit,
			Hint: c.Hint(),
			Open: func(hello string) (Server, error) { return smtp.New(named(hello)) },
			Examine: func(ctx context.Context, hello string, senders []string) (delivery.Encryption, error) {
				return smtp.Examine(ctx, named(hello), senders...)
			},
		}, err
	case scheme == mailapi.Scheme:
		c, err := mailapi.ParseURL(text)
		return Config{
			Host: c.Host, Address: c.Address(), API: true, RequiresTLS: !c.Cleartext,
			Open: func(string) (Server, error) { return mailapi.New(c) },
			Examine: func(ctx context.Context, _ string, _ []string) (delivery.Encryption, error) {
				return mailapi.Examine(ctx, c)
			},
		}, err
	}
	return Config{}, delivery.SafeError("the scheme must be one of smtp, smtps, " + mailapi.Scheme)
}

// Open makes the servers of the configurations without connecting to them. The parameter hello is
// the name that EHLO sends, unless a URL has another name.
func Open(configs []Config, hello string) (Servers, error) {
	var all []Server
	for _, c := range configs {
		server, err := c.Open(hello)
		if err != nil {
			return nil, err
		}
		all = append(all, server)
	}
	servers := New(all...)
	for n, c := range configs {
		servers[n].examine = func(ctx context.Context, senders []string) error {
			_, err := c.Examine(ctx, hello, senders)
			return err
		}
	}
	return servers, nil
}
