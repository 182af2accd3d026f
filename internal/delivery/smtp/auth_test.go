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

func TestExamine(t *testing.T) {
	login := smtptest.Script{TLS: smtptest.STARTTLS, Username: username, Password: password}
	server := smtptest.Start(t, login)
	config, err := smtp.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	examine := func(ctx context.Context, change func(*smtp.Config), want outcome) {
		t.Helper()
		changed := config
		change(&changed)
		_, err := smtp.Examine(ctx, changed)
		expect(t, err, want)
	}
	same := func(*smtp.Config) {}
	examine(t.Context(), same, outcome{})
	if got := verbs(server); got != "EHLO STARTTLS EHLO AUTH NOOP QUIT" {
		t.Errorf("dialogue %q", got)
	}
	examine(t.Context(), func(c *smtp.Config) { c.Password = "x" }, outcome{delivery.Temporary, delivery.StageAuth, 535, "5.7.8"})
	examine(t.Context(), distrustful, tlsFailure())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	examine(cancelled, same, outcome{class: delivery.Temporary, stage: delivery.StageDial})
	login.Rules = []smtptest.Rule{{Stage: smtptest.Noop, Reply: "421 4.3.2 no"}}
	server.SetScript(login)
	examine(t.Context(), same, outcome{delivery.Temporary, delivery.StageHello, 421, "4.3.2"})
	server.Stop()
	examine(t.Context(), same, outcome{class: delivery.Temporary, stage: delivery.StageDial})
}
