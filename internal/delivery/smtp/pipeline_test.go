package smtp_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// TestCommandsGoTogether: a server that says nothing until it has heard DATA is heard out by a client that pipelines, and by no other.
func TestCommandsGoTogether(t *testing.T) {
	for keyword, want := range map[string]outcome{
		"PIPELINING": {}, "8BITMIME": {class: delivery.Temporary, stage: delivery.StageMail},
	} {
		parts.Bubble(t, func(t *testing.T) {
			config := smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go silentUntilData(server, keyword)
				return client, nil
			}}
			_, err := newSender(t, config).Send(t.Context(), message(1))
			expect(t, err, want)
		})
	}
}

func silentUntilData(conn net.Conn, keyword string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	until := func(line string) bool {
		for {
			heard, err := in.ReadString('\n')
			if err != nil {
				return false
			}
			if strings.HasPrefix(heard, line) {
				return true
			}
		}
	}
	for _, turn := range []struct{ say, await string }{
		{"220 here", "EHLO"}, {"250-here\r\n250 " + keyword, "DATA"}, {"250 ok\r\n250 ok\r\n354 go", ".\r\n"}, {"250 taken", "QUIT"},
	} {
		if _, err := conn.Write([]byte(turn.say + "\r\n")); err != nil || !until(turn.await) {
			return
		}
	}
}

// TestRefusedInThePipeline: the refusal that counts is the first, and the connection serves the next mail.
func TestRefusedInThePipeline(t *testing.T) {
	for stage, want := range map[smtptest.Stage]outcome{
		smtptest.Mail: {delivery.Temporary, delivery.StageMail, 451, "4.7.1"},
		smtptest.Rcpt: {delivery.Rejected, delivery.StageRcpt, 550, "5.1.1"},
		smtptest.Data: {delivery.Rejected, delivery.StageData, 554, "5.7.1"},
	} {
		reply := map[smtptest.Stage]string{smtptest.Mail: "451 4.7.1 later", smtptest.Rcpt: "550 5.1.1 unknown",
			smtptest.Data: "554 5.7.1 no"}[stage]
		server, s := overTCP(t, smtptest.Script{Extensions: pipelining, Rules: []smtptest.Rule{
			{Stage: stage, Times: 1, Reply: reply},
		}})
		_, err := s.Send(t.Context(), message(1))
		expect(t, err, want)
		sendAll(t, s, 2, 2)
		expectCounts(t, server, 1, 1)
		if got := verbs(server); got != "EHLO MAIL RCPT DATA RSET MAIL RCPT DATA" {
			t.Errorf("%s refused: dialogue %q", stage, got)
		}
	}
}

// TestContentIsKeptFromWhoRefused: a server that refuses the recipient and asks for the content all the same gets neither
// content nor dot, and the next mail takes a fresh connection.
func TestContentIsKeptFromWhoRefused(t *testing.T) {
	for _, refused := range []smtptest.Stage{smtptest.Mail, smtptest.Rcpt} {
		server, s := overTCP(t, smtptest.Script{Extensions: pipelining, Rules: []smtptest.Rule{
			{Stage: refused, Times: 1, Reply: "550 5.1.1 unknown"}, {Stage: smtptest.Data, Times: 1, Reply: "354 go on"},
		}})
		_, err := s.Send(t.Context(), message(1))
		expect(t, err, outcome{delivery.Rejected, seenAt[refused], 550, "5.1.1"})
		sendAll(t, s, 2, 2)
		expectCounts(t, server, 1, 2)
		if got := verbs(server); got != "EHLO MAIL RCPT DATA EHLO MAIL RCPT DATA" {
			t.Errorf("%s refused: dialogue %q", refused, got)
		}
	}
}

// TestRefusedAndGone: what a server refused before it went away stays refused, and no other mail goes there.
func TestRefusedAndGone(t *testing.T) {
	for name, rules := range map[string][]smtptest.Rule{
		"closes":     {{Stage: smtptest.Rcpt, Times: 1, Reply: "550 5.1.1 unknown"}, {Stage: smtptest.Data, Times: 1, Close: true}},
		"421":        {{Stage: smtptest.Rcpt, Times: 1, Reply: "550 5.1.1 unknown"}, {Stage: smtptest.Data, Times: 1, Reply: "421 4.3.2 bye"}},
		"421 midway": {{Stage: smtptest.Mail, Times: 1, Reply: "550 5.1.1 unknown"}, {Stage: smtptest.Rcpt, Times: 1, Reply: "421 4.3.2 bye"}},
		"tears": {{Stage: smtptest.Rcpt, Times: 1, Reply: "550 5.1.1 unknown"},
			{Stage: smtptest.Data, Times: 1, Raw: "503 5.5", Close: true}},
	} {
		t.Run(name, func(t *testing.T) {
			server, s := overTCP(t, smtptest.Script{Extensions: pipelining, Rules: rules})
			_, err := s.Send(t.Context(), message(1))
			expect(t, err, outcome{delivery.Rejected, seenAt[rules[0].Stage], 550, "5.1.1"})
			sendAll(t, s, 2, 2)
			expectCounts(t, server, 1, 2)
		})
	}
}
