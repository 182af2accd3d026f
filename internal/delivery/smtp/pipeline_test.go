package smtp_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// TestCommandsGoTogether: a server that offers PIPELINING gets the three commands in one write, and no other does.
func TestCommandsGoTogether(t *testing.T) {
	for keyword, want := range map[string]int{"PIPELINING": 1, "8BITMIME": 0} {
		server, together := smtptest.Start(t, smtptest.Script{Extensions: []string{keyword}}), 0
		sendAll(t, sender(t, server, dialThrough(func(c *hooked) {
			c.write = func(p []byte) (int, error) {
				if bytes.HasPrefix(p, []byte("MAIL ")) && bytes.Contains(p, []byte("\r\nRCPT ")) && bytes.HasSuffix(p, []byte("\r\nDATA\r\n")) {
					together++
				}
				return c.Conn.Write(p)
			}
		})), 1, 1)
		if together != want {
			t.Errorf("%s: %d times together", keyword, together)
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
		servertest.Bubble(t, func(t *testing.T) {
			server, s := inBubble(t, smtptest.Script{Extensions: pipelining, Rules: c.rules})
			_, err := s.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, c.want)
			synctest.Wait()
			sendAll(t, s, 2, 2)
			expectCounts(t, server, 1, c.connections)
			next := map[int]string{1: "RSET", 2: "EHLO"}[c.connections]
			if got := verbs(server); got != "EHLO MAIL RCPT DATA "+next+" MAIL RCPT DATA" {
				t.Errorf("%s: dialogue %q", name, got)
			}
		})
	}
}

// TestKeptConnectionThatFails: whatever happens on it before 354, the mail goes out once, over a fresh one. Not so twice, nor once the server
// has said 354 or has given a whole refusal.
func TestKeptConnectionThatFails(t *testing.T) {
	sent := outcome{}
	failed := func(class delivery.Class, stage string) outcome { return outcome{class: class, stage: stage} }
	rows := map[string]struct {
		rule                  smtptest.Rule
		want                  outcome
		messages, connections int
	}{
		"closed while idle":       {smtptest.Rule{Stage: smtptest.Idle, Times: 1, Close: true}, sent, 2, 2},
		"421 while idle":          {smtptest.Rule{Stage: smtptest.Idle, Times: 1, Reply: "421 4.4.2 idle for too long", Close: true}, sent, 2, 2},
		"a line out of turn":      {smtptest.Rule{Stage: smtptest.Idle, Times: 1, Reply: "250 2.0.0 by the way"}, sent, 2, 2},
		"closed at MAIL":          {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Close: true}, sent, 2, 2},
		"421 at MAIL":             {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Reply: "421 4.4.5 busy"}, sent, 2, 2},
		"half a refusal at MAIL":  {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Raw: "550 5.1", Close: true}, sent, 2, 2},
		"closed at RCPT":          {smtptest.Rule{Stage: smtptest.Rcpt, Skip: 1, Times: 1, Close: true}, sent, 2, 2},
		"250 in place of the 354": {smtptest.Rule{Stage: smtptest.Data, Skip: 1, Times: 1, Reply: "250 ok"}, sent, 2, 2},

		"the fresh one fails too": {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Close: true}, failed(delivery.Temporary, delivery.StageMail), 1, 2},
		"reset within the body":   {smtptest.Rule{Stage: smtptest.Body, Skip: 1, Abort: true}, failed(delivery.Temporary, delivery.StageBody), 1, 1},
		"closed after the dot":    {smtptest.Rule{Stage: smtptest.Dot, Skip: 1, Close: true}, failed(delivery.Unknown, delivery.StageDot), 2, 1},
		"refused for now": {smtptest.Rule{Stage: smtptest.Rcpt, Skip: 1, Reply: "450 4.2.1 busy"},
			outcome{delivery.Temporary, delivery.StageRcpt, 450, "4.2.1"}, 1, 1},
		"refused for good": {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Reply: "550 5.7.1 no"},
			outcome{delivery.Rejected, delivery.StageMail, 550, "5.7.1"}, 1, 1},
		"421 after the dot": {smtptest.Rule{Stage: smtptest.Dot, Skip: 1, Reply: "421 4.3.0 no"},
			outcome{delivery.Temporary, delivery.StageDot, 421, "4.3.0"}, 1, 1},
	}
	bothWays(t, func(t *testing.T, extensions []string) {
		for name, c := range rows {
			t.Run(name, func(t *testing.T) {
				server, s := overTCP(t, smtptest.Script{Extensions: extensions, Rules: []smtptest.Rule{c.rule}}, unbuffered)
				sendAll(t, s, 1, 1)
				second := smtptest.Sample(2)
				if c.rule.Stage == smtptest.Body {
					second = bigMessage(2)
				}
				_, err := s.Send(t.Context(), second)
				expect(t, err, c.want)
				expectCounts(t, server, c.messages, c.connections)
			})
		}
	})
}

// TestRefusalKeepsTheConnection: the next mail starts with RSET, and with a fresh connection where that fails.
func TestRefusalKeepsTheConnection(t *testing.T) {
	for stage, at := range map[smtptest.Stage]string{
		smtptest.Mail: "EHLO MAIL", smtptest.Rcpt: "EHLO MAIL RCPT", smtptest.Data: "EHLO MAIL RCPT DATA", smtptest.Dot: "EHLO MAIL RCPT DATA",
	} {
		refusal := smtptest.Rule{Stage: stage, Times: 1, Reply: "550 5.1.1 no"}
		for name, c := range map[string]struct {
			reset       smtptest.Rule
			connections int
			dialogue    string
		}{
			"RSET works":  {smtptest.Rule{}, 1, at + " RSET MAIL RCPT DATA"},
			"RSET fails":  {smtptest.Rule{Stage: smtptest.Reset, Reply: "500 5.5.1 no"}, 2, at + " RSET EHLO MAIL RCPT DATA"},
			"RSET closes": {smtptest.Rule{Stage: smtptest.Reset, Close: true}, 2, at + " RSET EHLO MAIL RCPT DATA"},
		} {
			t.Run(string(stage)+" "+name, func(t *testing.T) {
				server, s := overTCP(t, misbehaving(refusal, c.reset))
				_, err := s.Send(t.Context(), smtptest.Sample(1))
				expect(t, err, outcome{delivery.Rejected, seenAt[stage], 550, "5.1.1"})
				sendAll(t, s, 2, 2)
				expectCounts(t, server, 1, c.connections)
				if got := verbs(server); got != c.dialogue {
					t.Errorf("dialogue %q, want %q", got, c.dialogue)
				}
			})
		}
	}
}
