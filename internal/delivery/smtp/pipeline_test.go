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
	"sendcode/internal/servertest"
)

// TestCommandsGoTogether: a server that says nothing until it has heard DATA is heard out by a client that pipelines, and by no other.
func TestCommandsGoTogether(t *testing.T) {
	for keyword, want := range map[string]outcome{
		"PIPELINING": {}, "8BITMIME": {class: delivery.Temporary, stage: delivery.StageMail},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			config := smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone, Dial: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go silentUntilData(server, keyword)
				return client, nil
			}}
			_, err := newSender(t, config).Send(t.Context(), smtptest.Sample(1))
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

// TestRefusedInThePipeline: the refusal that counts is the first. The connection serves the next mail, unless the server went away, or asked
// for the content all the same: then it gets neither content nor dot.
func TestRefusedInThePipeline(t *testing.T) {
	at := func(stage smtptest.Stage, reply string) smtptest.Rule {
		return smtptest.Rule{Stage: stage, Times: 1, Reply: reply}
	}
	unknown, noSender := at(smtptest.Rcpt, "550 5.1.1 unknown"), at(smtptest.Mail, "550 5.1.1 unknown")
	refused := func(stage string) outcome { return outcome{delivery.Rejected, stage, 550, "5.1.1"} }
	for name, c := range map[string]struct {
		rules       []smtptest.Rule
		want        outcome
		connections int
	}{
		"the sender, for now": {[]smtptest.Rule{at(smtptest.Mail, "451 4.7.1 later")}, outcome{delivery.Temporary, delivery.StageMail, 451, "4.7.1"}, 1},
		"the recipient":       {[]smtptest.Rule{unknown}, refused(delivery.StageRcpt), 1},
		"the content":         {[]smtptest.Rule{at(smtptest.Data, "550 5.1.1 no")}, refused(delivery.StageData), 1},

		"the sender, not the content":    {[]smtptest.Rule{noSender, at(smtptest.Data, "354 go on")}, refused(delivery.StageMail), 2},
		"the recipient, not the content": {[]smtptest.Rule{unknown, at(smtptest.Data, "354 go on")}, refused(delivery.StageRcpt), 2},

		"and closed":         {[]smtptest.Rule{unknown, {Stage: smtptest.Data, Times: 1, Close: true}}, refused(delivery.StageRcpt), 2},
		"and 421":            {[]smtptest.Rule{unknown, at(smtptest.Data, "421 4.3.2 bye")}, refused(delivery.StageRcpt), 2},
		"and 421 midway":     {[]smtptest.Rule{noSender, at(smtptest.Rcpt, "421 4.3.2 bye")}, refused(delivery.StageMail), 2},
		"and half a refusal": {[]smtptest.Rule{unknown, {Stage: smtptest.Data, Times: 1, Raw: "503 5.5", Close: true}}, refused(delivery.StageRcpt), 2},
	} {
		t.Run(name, func(t *testing.T) {
			server, s := overTCP(t, smtptest.Script{Extensions: pipelining, Rules: c.rules})
			_, err := s.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, c.want)
			sendAll(t, s, 2, 2)
			expectCounts(t, server, 1, c.connections)
			next := map[int]string{1: "RSET", 2: "EHLO"}[c.connections]
			if got := verbs(server); got != "EHLO MAIL RCPT DATA "+next+" MAIL RCPT DATA" {
				t.Errorf("dialogue %q", got)
			}
		})
	}
}
