package smtp_test

import (
	"context"
	"strings"
	"testing"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
)

func TestLoggingIn(t *testing.T) {
	wrong := func(c *smtp.Config) { c.Password = "not " + password }
	refused := outcome{delivery.Temporary, delivery.StageAuth, 535, "5.7.8"}
	for _, mechanism := range []string{"PLAIN", "LOGIN"} {
		t.Run(mechanism, func(t *testing.T) {
			server := smtptest.Start(t, smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password,
				Mechanisms: []string{"X-UNKNOWN", mechanism}})
			_, err := sender(t, server).Send(t.Context(), smtptest.Sample(1))
			expect(t, err, outcome{})
			_, err = sender(t, server, wrong).Send(t.Context(), smtptest.Sample(2))
			expect(t, err, refused)
			if len(server.Messages()) != 1 {
				t.Errorf("%d messages accepted", len(server.Messages()))
			}
		})
	}
}

func TestNotLoggedIn(t *testing.T) {
	login := smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password}
	with := func(rules ...smtptest.Rule) smtptest.Script { s := login; s.Rules = rules; return s }
	noMechanism := login
	noMechanism.Mechanisms = []string{"X-UNKNOWN"}
	at := func(code int, enhanced string) outcome {
		return outcome{delivery.Temporary, delivery.StageAuth, code, enhanced}
	}
	for name, c := range map[string]struct {
		script smtptest.Script
		want   outcome
	}{
		"no known mechanism": {noMechanism, at(0, "")},
		"no AUTH at all":     {smtptest.Script{TLS: smtptest.STARTTLS}, at(0, "")},
		"not now":            {with(smtptest.Rule{Stage: smtptest.Auth, Reply: blabbing("454 4.7.0")}), at(454, "4.7.0")},
		"wrong":              {with(smtptest.Rule{Stage: smtptest.Auth, Reply: blabbing("535 5.7.8")}), at(535, "5.7.8")},
		"closed":             {with(smtptest.Rule{Stage: smtptest.Auth, Close: true}), at(0, "")},
		"garbage":            {with(smtptest.Rule{Stage: smtptest.Auth, Reply: blabbing("hello")}), at(0, "")},
		"a broken challenge": {with(smtptest.Rule{Stage: smtptest.Auth, Reply: blabbing("334 %%%")}), at(0, "")},
	} {
		t.Run(name, func(t *testing.T) {
			server, s := overTCP(t, c.script, func(c *smtp.Config) { c.Username, c.Password = username, password })
			_, err := s.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, c.want)
			if strings.Contains(verbs(server), "MAIL") {
				t.Errorf("went on without a login: %q", verbs(server))
			}
		})
	}
}

func probe(s *smtp.Client, ctx context.Context) error {
	_, err := s.Examine(ctx)
	return err
}

func TestProbe(t *testing.T) {
	login := smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password}
	server, s := overTCP(t, login)
	sendAll(t, s, 1, 1)
	for range 5 { // more often than there are places
		expect(t, probe(s, t.Context()), outcome{})
	}
	if got := verbs(server); !strings.HasSuffix(got, "EHLO STARTTLS EHLO AUTH NOOP QUIT") || len(server.Messages()) != 1 {
		t.Errorf("dialogue %q", got)
	}
	expect(t, probe(sender(t, server, func(c *smtp.Config) { c.Password = "x" }), t.Context()),
		outcome{delivery.Temporary, delivery.StageAuth, 535, "5.7.8"})
	expect(t, probe(sender(t, server, distrustful), t.Context()), tlsFailure())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, probe(s, cancelled), outcome{class: delivery.Temporary, stage: delivery.StageDial})
	server.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password,
		Rules: []smtptest.Rule{{Stage: smtptest.Noop, Reply: "421 4.3.2 no"}}})
	expect(t, probe(s, t.Context()), outcome{delivery.Temporary, delivery.StageHello, 421, "4.3.2"})
	server.Stop()
	expect(t, probe(s, t.Context()), outcome{class: delivery.Temporary, stage: delivery.StageDial})
}
