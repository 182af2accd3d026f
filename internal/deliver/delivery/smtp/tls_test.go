package smtp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

func tlsFailure() outcome { return outcome{Class: delivery.Temporary, Stage: delivery.StageTLS} }

// encryption is one row of the table. After a failure of the login the client stops before MAIL,
// and after a failure of TLS before AUTH.
type encryption struct {
	name   string
	script smtptest.Script
	// change alters the configuration that the server's own URL gives.
	change func(*smtp.Config)
	want   outcome
	// cause is part of the error's text.
	cause string
}

func required(c *smtp.Config)      { c.TLS = smtp.TLSRequired }
func opportunistic(c *smtp.Config) { c.TLS = smtp.TLSOpportunistic }
func distrustful(c *smtp.Config)   { c.RootCAs = nil }
func withUser(c *smtp.Config)      { c.Username, c.Password = username, password }

// misnamed gives the server a name that its certificate lacks.
func misnamed(c *smtp.Config) {
	at := net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	c.Host = "other.example"
	c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at)
	}
}

func startTLS(rules ...smtptest.Rule) smtptest.Script {
	return smtptest.Script{TLS: smtptest.STARTTLS, Rules: rules}
}

// login returns the script of a server that requires username and this password.
func login(password string, mechanisms ...string) smtptest.Script {
	return smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password, Mechanisms: mechanisms}
}

// answers returns the script of a server whose answer to AUTH follows a rule.
func answers(rule smtptest.Rule) smtptest.Script {
	s := login(password)
	rule.Stage = smtptest.Auth
	s.Rules = []smtptest.Rule{rule}
	return s
}

func loginFailure(code int, enhanced string) outcome {
	return outcome{delivery.Temporary, delivery.StageAuth, code, enhanced}
}

func TestEncryption(t *testing.T) {
	for _, row := range []encryption{
		{name: "STARTTLS", script: startTLS()},
		{name: "implicit", script: smtptest.Script{TLS: smtptest.Implicit}},
		{name: "none where the policy is opportunistic", change: opportunistic},

		{name: "STARTTLS stripped", change: required, want: tlsFailure(), cause: "does not offer STARTTLS"},
		{
			name: "EHLO stripped to HELO", script: startTLS(smtptest.Rule{Stage: smtptest.Hello, Times: 1, Reply: "502 5.5.1 no"}),
			want: tlsFailure(), cause: "does not offer STARTTLS",
		},
		{name: "bytes injected behind the answer", script: startTLS(smtptest.Rule{
			Stage: smtptest.StartTLS,
			Raw:   "220 go\r\n250-evil.example\r\n250 AUTH PLAIN\r\n",
		}), want: tlsFailure(), cause: "unencrypted bytes"},
		{name: "bytes injected a little later", script: startTLS(smtptest.Rule{
			Stage: smtptest.Handshake,
			Delay: 20 * time.Millisecond, Raw: "250 evil.example\r\n",
		}), want: tlsFailure()},
		{name: "unknown authority", script: startTLS(), change: distrustful, want: tlsFailure(), cause: "unknown authority"},
		{
			name: "unknown authority, implicit TLS", script: smtptest.Script{TLS: smtptest.Implicit}, change: distrustful,
			want:  tlsFailure(),
			cause: "unknown authority",
		},
		{name: "another host's certificate", script: startTLS(), change: misnamed, want: tlsFailure(), cause: "certificate"},
		{name: "TLS 1.1", script: smtptest.Script{TLS: smtptest.STARTTLS, MaxTLS: tls.VersionTLS11}, want: tlsFailure()},
		{
			name: "TLS 1.1 where the policy is opportunistic", change: opportunistic,
			script: smtptest.Script{TLS: smtptest.STARTTLS, MaxTLS: tls.VersionTLS11},
		},
		{
			name: "closed at the handshake where the policy is opportunistic", change: opportunistic, want: tlsFailure(),
			script: startTLS(smtptest.Rule{Stage: smtptest.Handshake, Close: true}),
		},
		{
			name: "STARTTLS refused where the policy is opportunistic", change: opportunistic,
			script: startTLS(smtptest.Rule{Stage: smtptest.StartTLS, Reply: "454 4.7.0 not now"}),
			want:   outcome{delivery.Temporary, delivery.StageTLS, 454, "4.7.0"},
		},
		{
			name: "STARTTLS refused for good", script: startTLS(smtptest.Rule{Stage: smtptest.StartTLS, Reply: blabbing("502 5.5.1")}),
			want: outcome{delivery.Temporary, delivery.StageTLS, 502, "5.5.1"},
		},
		{name: "closed at STARTTLS", script: startTLS(smtptest.Rule{Stage: smtptest.StartTLS, Close: true}), want: tlsFailure()},
		{name: "closed at the handshake", script: startTLS(smtptest.Rule{Stage: smtptest.Handshake, Close: true}), want: tlsFailure()},
		{
			name: "implicit expected, plain found", want: tlsFailure(), cause: "smtp:// for STARTTLS",
			change: func(c *smtp.Config) { c.TLS = smtp.TLSImplicit },
		},
		{
			name: "refused at RCPT within TLS", script: startTLS(smtptest.Rule{Stage: smtptest.Rcpt, Reply: blabbing("550 5.1.1")}),
			want: outcome{delivery.Rejected, delivery.StageRcpt, 550, "5.1.1"},
		},
		{name: "PLAIN", script: login(password, "X-UNKNOWN", "PLAIN"), change: withUser},
		{name: "LOGIN", script: login(password, "X-UNKNOWN", "LOGIN"), change: withUser},
		{name: "PLAIN, wrong", script: login("another", "PLAIN"), change: withUser, want: loginFailure(535, "5.7.8")},
		{name: "no known mechanism", script: login(password, "X-UNKNOWN"), change: withUser, want: loginFailure(0, "")},
		{name: "no AUTH at all", script: startTLS(), change: withUser, want: loginFailure(0, "")},
		{name: "refused", script: answers(smtptest.Rule{Reply: blabbing("535 5.7.8")}), change: withUser, want: loginFailure(535, "5.7.8")},
		{name: "closed at AUTH", script: answers(smtptest.Rule{Close: true}), change: withUser, want: loginFailure(0, "")},
		{
			name: "a broken challenge", script: answers(smtptest.Rule{Reply: blabbing("334 %%%")}), change: withUser,
			want: loginFailure(0, ""),
		},
		{
			name:   "half a refusal within TLS",
			script: startTLS(smtptest.Rule{Stage: smtptest.Rcpt, Raw: blabbing("550 5.1.1"), Close: true}),
			want:   outcome{Class: delivery.Temporary, Stage: delivery.StageRcpt},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := smtptest.Start(t, row.script)
			change := row.change
			if change == nil {
				change = func(*smtp.Config) {}
			}
			sender := server.Sender(t, change)
			_, err := sender.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, row.want)
			if err != nil && !strings.Contains(err.Error(), row.cause) {
				t.Errorf("%q does not say %q", err, row.cause)
			}
			spoken, stage := verbs(server), row.want.Stage
			if stage == delivery.StageTLS && strings.Contains(spoken, "AUTH") ||
				(stage == delivery.StageTLS || stage == delivery.StageAuth) && strings.Contains(spoken, "MAIL") {
				t.Errorf("went on after the failure: %q", spoken)
			}
			want := 0
			if row.want == (outcome{}) {
				want = 1
			}
			servertest.Same(t, "messages that the server accepted", len(server.Messages()), want)
			seen := want == 1 && row.script.TLS != smtptest.Plain && row.script.MaxTLS == 0 || row.want.Stage == delivery.StageRcpt
			if end := sender.Health()[0].CertificateEnd; seen != end.After(time.Now()) || !seen && !end.IsZero() {
				t.Errorf("the certificate ends at %v", end)
			}
		})
	}
}

// With each certificate that cannot be verified, tls=required sends nothing. tls=opportunistic
// sends encrypted, and OnUnverified gets the reason once. The client logs in only on loopback.
func TestUnverifiedCertificate(t *testing.T) {
	ca := servertest.NewAuthority(t)
	issued := func(change func(*x509.Certificate)) *tls.Certificate {
		identity, err := tls.LoadX509KeyPair(ca.Issue(t, change))
		servertest.OK(t, err)
		return &identity
	}
	other := servertest.NewAuthority(t)
	selfSigned := tls.Certificate{Certificate: [][]byte{other.Certificate.Raw}, PrivateKey: other.Key}
	foreign, err := tls.LoadX509KeyPair(other.Issue(t))
	servertest.OK(t, err)
	trusted, err := delivery.LoadCAPool(ca.File)
	servertest.OK(t, err)
	reasons := map[string]*tls.Certificate{
		"unknown authority": &selfSigned, "signed by unknown authority": &foreign,
		"expired":         issued(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }),
		"not 127.0.0.1":   issued(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }),
		"doesn't contain": issued(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"relay.example"} }),
		"":                issued(func(*x509.Certificate) {}),
	}
	for reason, identity := range reasons {
		script := smtptest.Script{TLS: smtptest.STARTTLS, Identity: identity, Rules: []smtptest.Rule{{Stage: smtptest.Idle, Close: true}}}
		send := func(script smtptest.Script, changes ...func(*smtp.Config)) (said []string, spoken string, err error) {
			server := smtptest.New(t, script)
			sender := server.Sender(t, append(changes, func(c *smtp.Config) { c.RootCAs = trusted })...)
			sender.OnUnverified(func(_ string, why error) { said = append(said, why.Error()) })
			for n := range 2 { // over a connection each
				_, err = sender.Send(t.Context(), smtptest.Sample(n))
			}
			return said, verbs(server), err
		}
		sent, once := outcome{}, 1
		want, refused := tlsFailure(), outcome{Class: delivery.Temporary, Stage: delivery.StageAuth}
		if reason == "" {
			want, refused, once = sent, sent, 0
		}
		_, _, err := send(script, required)
		expect(t, err, want)
		said, spoken, err := send(script, opportunistic)
		expect(t, err, sent)
		if len(said) != once || once == 1 && !strings.Contains(said[0], reason) || !strings.HasPrefix(spoken, "EHLO STARTTLS EHLO MAIL") {
			t.Errorf("%s: said %q, spoke %q", reason, said, spoken)
		}
		for _, mechanism := range []string{"PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "XOAUTH2"} {
			script.Username, script.Password, script.Mechanisms = username, password, []string{mechanism}
			_, spoken, err := send(script, opportunistic, withUser)
			if reason != "" {
				expect(t, err, refused)
			}
			if strings.Contains(spoken, "AUTH") == (reason != "") && mechanism != "XOAUTH2" {
				t.Errorf("%s, %s: spoke %q", reason, mechanism, spoken)
			}
		}
		script.Mechanisms = []string{"PLAIN"}
		server := smtptest.Start(t, script) // on loopback, where the client logs in
		_, err = server.Sender(t, opportunistic, withUser).Send(t.Context(), smtptest.Sample(1))
		expect(t, err, sent)
	}
}

// A port for TLS from the first byte sends no greeting to a client that begins in the clear. After
// the timeout, the error names the other scheme.
func TestTLSPortGreetsNoClientInTheClear(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		_, s := inBubble(t, smtptest.Script{TLS: smtptest.Implicit}, required)
		began := time.Now()
		_, err := s.Send(t.Context(), smtptest.Sample(1))
		expect(t, err, outcome{Class: delivery.Temporary, Stage: delivery.StageHello})
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "write smtps://") ||
			time.Since(began) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A listener on the wire of a TLS connection can read neither the recipient nor the password nor
// the code.
func TestTLSHidesMailAndPassword(t *testing.T) {
	for _, kind := range []smtptest.Encryption{smtptest.STARTTLS, smtptest.Implicit} {
		server := smtptest.Start(t, smtptest.Script{TLS: kind, Username: username, Password: password})
		var log servertest.Text
		s := server.Sender(t, dialThrough(func(c *hooked) {
			c.write = io.MultiWriter(c.Conn, &log).Write
		}))
		_, err := s.Send(t.Context(), smtptest.Sample(1))
		expect(t, err, outcome{})
		for _, readable := range []string{"MAIL", "RCPT", "AUTH", recipient, username, code} {
			if strings.Contains(log.String(), readable) {
				t.Errorf("the wire shows %q", readable)
			}
		}
	}
}

// The client never logs in without encryption beyond this machine, whatever the server offers.
func TestLoginIsEncryptedBeyondThisMachine(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		server, s := inBubble(t, smtptest.Script{Username: username, Password: password}, func(c *smtp.Config) {
			c.Host, c.TLS, c.Username, c.Password = "relay.example", smtp.TLSOpportunistic, username, password
		})
		_, err := s.Send(t.Context(), smtptest.Sample(1))
		expect(t, err, outcome{Class: delivery.Temporary, Stage: delivery.StageAuth})
		servertest.Same(t, "the dialogue", verbs(server), "EHLO")
	})
}

// If a server refuses a login by CRAM-MD5, which it offers, the client logs in again by PLAIN or
// LOGIN. From then on it begins with the mechanism that worked.
func TestLoginByAnotherMechanism(t *testing.T) {
	refused := smtptest.Rule{Stage: smtptest.Auth, Reply: "535 5.7.8 no"}
	once := refused
	once.Times = 1
	no := outcome{delivery.Temporary, delivery.StageAuth, 535, "5.7.8"}
	for name, c := range map[string]struct {
		offered, given string
		rule           smtptest.Rule
		want           outcome
		tried          string // by two mails, each on a connection of its own
	}{
		"the challenge is refused": {"CRAM-MD5 PLAIN LOGIN", "", once, outcome{}, "CRAM-MD5 PLAIN PLAIN"},
		"both are refused":         {"CRAM-MD5 LOGIN", "", refused, no, "CRAM-MD5 LOGIN CRAM-MD5 LOGIN"},
		"nothing else is offered":  {"CRAM-MD5 GSSAPI", "", refused, no, "CRAM-MD5 CRAM-MD5"},
		"the password is refused":  {"PLAIN LOGIN", "", refused, no, "PLAIN PLAIN"},
		"one is configured":        {"CRAM-MD5 PLAIN", "CRAM-MD5", refused, no, "CRAM-MD5 CRAM-MD5"},
		"a weaker is configured":   {"CRAM-MD5 PLAIN LOGIN", "LOGIN", smtptest.Rule{}, outcome{}, "LOGIN LOGIN"},
	} {
		t.Run(name, func(t *testing.T) {
			script := login(password, strings.Fields(c.offered)...)
			script.Rules = []smtptest.Rule{c.rule, {Stage: smtptest.Idle, Close: true}}
			server, s := overTCP(t, script, func(config *smtp.Config) { config.Mechanism = c.given })
			for n := range 2 {
				_, err := s.Send(t.Context(), smtptest.Sample(n))
				expect(t, err, c.want)
			}
			var tried []string
			for _, line := range server.Commands() {
				if words := strings.Fields(line); words[0] == "AUTH" {
					tried = append(tried, words[1])
				}
			}
			servertest.Same(t, "the mechanisms that were tried", strings.Join(tried, " "), c.tried)
		})
	}
}

func TestExamine(t *testing.T) {
	script := login(password)
	server := smtptest.Start(t, script)
	config, err := smtp.ParseURL(server.URL())
	servertest.OK(t, err)
	examine := func(change func(*smtp.Config), want outcome) {
		t.Helper()
		changed := config
		change(&changed)
		_, err := smtp.Examine(t.Context(), changed, "Shop <codes@shop.example>", "codes@bücher.example")
		expect(t, err, want)
	}
	same := func(*smtp.Config) {}
	examine(same, outcome{})
	servertest.Same(t, "the dialogue", verbs(server), "EHLO STARTTLS EHLO AUTH MAIL RSET MAIL RSET QUIT")
	examine(func(c *smtp.Config) { c.Password = "x" }, outcome{delivery.Temporary, delivery.StageAuth, 535, "5.7.8"})
	examine(distrustful, tlsFailure())
	script.Rules = []smtptest.Rule{{Stage: smtptest.Mail, Skip: 1, Reply: "550 5.7.60 SendAsDenied"}}
	server.SetScript(script)
	examine(same, outcome{delivery.Rejected, delivery.StageMail, 550, "5.7.60"})
	script.Rules = []smtptest.Rule{{Stage: smtptest.Reset, Reply: "421 4.3.2 no"}}
	server.SetScript(script)
	examine(same, outcome{delivery.Temporary, delivery.StageMail, 421, "4.3.2"})
	server.Stop()
	examine(same, outcome{Class: delivery.Temporary, Stage: delivery.StageDial})
}
