package smtp_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/deliver/delivery/oauth/oauthtest"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

const mailbox = "codes=a@shop.example" // with a character that OAUTHBEARER escapes

// byToken returns the script of a server that accepts this token.
func byToken(token string, mechanisms ...string) smtptest.Script {
	return smtptest.Script{TLS: smtptest.STARTTLS, Username: mailbox, Password: token, OAuth: "m365", Mechanisms: mechanisms}
}

// withTokens makes a sender log in with the tokens of a source.
func withTokens(source *oauth.Source) func(*smtp.Config) {
	return func(c *smtp.Config) { c.Username, c.Password, c.OAuth, c.Tokens = mailbox, "", "m365", source }
}

// local makes a net.Pipe look like a connection on loopback, where the client logs in even without
// TLS or a verified certificate.
type local struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func onLoopback(c *smtp.Config) {
	dial := c.Dial
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return local{conn}, err
	}
}

// The rows test what the client sends to which server, what the error says to the operator, and how
// many tokens are requested. No error contains the token or the user.
func TestLoginByToken(t *testing.T) {
	long := oauthtest.JWT(`"SMTP.SendAsApp","` + strings.Repeat("x", 1500) + `"`)
	without := oauthtest.JWT(`"Mail.Send"`)
	auth := func(reply string) []smtptest.Rule { return []smtptest.Rule{{Stage: smtptest.Auth, Reply: reply}} }
	no := func(code string) outcome { return loginFailure(535, code) }
	for name, c := range map[string]struct {
		tokens   []string // answers of the token server; the last one repeats
		accepted string
		offered  string
		rules    []smtptest.Rule
		change   func(*smtp.Config)
		want     outcome
		says     string
		line     string // AUTH, up to its first response
		asked    int
	}{
		"XOAUTH2": {
			tokens: []string{"short"}, accepted: "short", offered: "LOGIN XOAUTH2 OAUTHBEARER",
			line: "AUTH XOAUTH2 dXNlcj1", asked: 1,
		},
		"XOAUTH2, a token of Entra": {tokens: []string{long}, accepted: long, offered: "LOGIN XOAUTH2", line: "AUTH XOAUTH2", asked: 1},
		"OAUTHBEARER": {
			tokens: []string{"short"}, accepted: "short", offered: "PLAIN OAUTHBEARER",
			line: "AUTH OAUTHBEARER bixhPWNvZGVzPTNE", asked: 1,
		},
		"OAUTHBEARER, a long one": {tokens: []string{long}, accepted: long, offered: "OAUTHBEARER", line: "AUTH OAUTHBEARER", asked: 1},
		"none is offered": {
			tokens: []string{"short"}, offered: "PLAIN LOGIN CRAM-MD5", want: loginFailure(0, ""),
			says: "does not offer OAuth", asked: 1,
		},
		"the second token is taken": {
			tokens: []string{"t0ken-1", "t0ken-2"}, accepted: "t0ken-2", offered: "XOAUTH2",
			line: "AUTH XOAUTH2", asked: 2,
		},
		"the second one, OAUTHBEARER": {
			tokens: []string{"t0ken-1", "t0ken-2"}, accepted: "t0ken-2", offered: "OAUTHBEARER",
			line: "AUTH OAUTHBEARER", asked: 2,
		},
		"both are refused": {
			tokens: []string{"t0ken-1", "t0ken-2"}, offered: "XOAUTH2", want: no("5.7.8"), asked: 2, line: "AUTH XOAUTH2",
			says: "configuration of oauth m365: Exchange refuses the token: register the enterprise application there",
		},
		"refused in JSON": {
			tokens: []string{"t0ken-1"}, offered: "OAUTHBEARER", want: no("5.7.8"), asked: 2, line: "AUTH OAUTHBEARER",
			says: "the server says status 401 for https://mail.google.com",
		},
		"the permission is missing": {
			tokens: []string{without}, offered: "XOAUTH2", rules: auth(blabbing("535 5.7.3")), want: no("5.7.3"), asked: 2,
			line: "AUTH XOAUTH2", says: "the API permission SMTP.SendAsApp",
		},
		"SMTP AUTH is off": {
			tokens: []string{long}, offered: "XOAUTH2", rules: auth(blabbing("535 5.7.139")), want: no("5.7.139"), asked: 1,
			line: "AUTH XOAUTH2",
			says: "Set-CASMailbox",
		},
		"busy": {
			tokens: []string{"short"}, offered: "XOAUTH2", rules: auth("454 4.7.0 too many"), want: loginFailure(454, "4.7.0"),
			asked: 1, line: "AUTH XOAUTH2",
		},
		"an unverified certificate": {
			tokens: []string{"short"}, accepted: "short", offered: "XOAUTH2", want: loginFailure(0, ""), asked: 1,
			change: func(c *smtp.Config) { opportunistic(c); distrustful(c) }, says: "without a verified certificate",
		},
		"no encryption": {
			tokens: []string{"short"}, accepted: "short", offered: "XOAUTH2", want: loginFailure(0, ""), asked: 1,
			change: func(c *smtp.Config) { c.TLS = smtp.TLSNone }, says: "over an unencrypted connection",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var answers []oauthtest.Answer
			for _, token := range c.tokens {
				answers = append(answers, oauthtest.Gives(token, 3600))
			}
			tokens := oauthtest.Start(t, answers...)
			script := byToken(c.accepted, strings.Fields(c.offered)...)
			script.Rules = c.rules
			server := smtptest.Start(t, script)
			sender := server.Sender(t, withTokens(tokens.Source()), func(config *smtp.Config) {
				config.Dial = server.Dial // so the peer is not on loopback
				if c.change != nil {
					c.change(config)
				}
			})
			_, err := sender.Send(t.Context(), smtptest.Sample(1))
			smtptest.Expect(t, err, smtptest.Outcome(c.want), append(c.tokens, mailbox, oauthtest.Secret, username, "battery")...)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			var line string
			for _, said := range server.Commands() {
				if strings.HasPrefix(said, "AUTH") {
					line = said
				}
			}
			if !strings.HasPrefix(line, c.line) || (c.line == "") != (line == "") || len(c.tokens[0]) > 500 && line != c.line {
				t.Errorf("said %q, want %q", line, c.line)
			}
			servertest.Same(t, "requests at the token server", tokens.Requests(), c.asked)
		})
	}
}

// The token server is slow or down, refuses, or gives tokens of 60 s. A mail waits and is not
// refused, the state of the mail server has the reason, and mails arrive after the outage. This
// holds for a client with a secret and for a service account.
func TestTokenServerTrouble(t *testing.T) {
	later := oauthtest.Gives("token", 60)
	later.After = 9 * time.Second
	for name, c := range map[string]struct {
		answer  oauthtest.Answer
		outcome outcome
		why     string
	}{
		"slow":        {later, outcome{}, ""},
		"short lives": {oauthtest.Gives("token", 60), outcome{}, ""},
		"down":        {oauthtest.Hangs, loginFailure(0, ""), "the token server: i/o timeout"},
		"refuses":     {oauthtest.Refuses("invalid_client", "7000215"), loginFailure(0, ""), "AADSTS7000215"},
	} {
		for _, kind := range oauthtest.Kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				servertest.Bubble(t, func(t *testing.T) {
					tokens := oauthtest.New(t, c.answer).As(kind)
					source := oauth.New(tokens.Client)
					all := oauth.Sources{"m365": source}
					defer func() { servertest.OK(t, all.Close()) }()
					all.Start(func(string, error) {})
					script := byToken("token", "XOAUTH2")
					script.TLS = smtptest.Plain
					server, s := inBubble(t, script, withTokens(source), onLoopback)
					defer func() { _ = s.Close() }()
					for n := range 6 {
						_, err := s.Send(t.Context(), smtptest.Sample(n))
						smtptest.Expect(t, err, smtptest.Outcome(c.outcome), oauthtest.Secret)
						if h := s.Health()[0]; h.Up != (c.why == "") || !strings.Contains(h.Why, c.why) {
							t.Errorf("%+v, want %q", h, c.why)
						}
						time.Sleep(31 * time.Second) // longer than a connection is kept, on the bubble's clock
					}
					tokens.Answer(oauthtest.Gives("token", 60))
					time.Sleep(30 * time.Second)
					_, err := s.Send(t.Context(), smtptest.Sample(6))
					expect(t, err, outcome{})
					if h := s.Health()[0]; !h.Up {
						t.Errorf("%+v", h)
					}
					if c.why == "" {
						smtptest.AllOnce(t, 7, server)
					}
				})
			})
		}
	}
}
