package smtp_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// A server that offers PIPELINING gets the three commands in one write. Any other server gets them
// one by one. Content and dot always go together.
func TestWritesOfAMail(t *testing.T) {
	for keyword, want := range map[string]int{"PIPELINING": 2, "8BITMIME": 4} {
		server, writes := smtptest.Start(t, smtptest.Script{Extensions: []string{keyword}}), 0
		sendAll(t, server.Sender(t, dialThrough(func(c *hooked) {
			c.write = func(p []byte) (int, error) {
				if !bytes.HasPrefix(p, []byte("EHLO ")) && !bytes.HasPrefix(p, []byte("QUIT")) {
					writes++
				}
				return c.Conn.Write(p)
			}
		})), 1, 1)
		servertest.Same(t, keyword+": writes", writes, want)
	}
}

// The first refusal decides. After RSET, the connection serves the next mail, unless the server
// closed it, rejects RSET, or asked for the content in spite of the refusal. In that last case, the
// server gets neither content nor dot.
func TestSendRefusals(t *testing.T) {
	at := func(stage smtptest.Stage, reply string) smtptest.Rule {
		return smtptest.Rule{Stage: stage, Times: 1, Reply: reply}
	}
	no := func(stage smtptest.Stage) smtptest.Rule { return at(stage, "550 5.1.1 no") }
	const mail, rcpt, data, dot = smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot
	for name, c := range map[string]struct {
		extensions []string
		stage      smtptest.Stage // the stage of the refusal that counts
		rules      []smtptest.Rule
		dialogue   string // before the next MAIL
	}{
		"one by one, the sender":    {nil, mail, []smtptest.Rule{no(mail)}, "EHLO MAIL RSET"},
		"one by one, the recipient": {nil, rcpt, []smtptest.Rule{no(rcpt)}, "EHLO MAIL RCPT RSET"},
		"one by one, DATA":          {nil, data, []smtptest.Rule{no(data)}, "EHLO MAIL RCPT DATA RSET"},
		"the mail":                  {nil, dot, []smtptest.Rule{no(dot)}, "EHLO MAIL RCPT DATA RSET"},
		"RSET fails":                {nil, rcpt, []smtptest.Rule{no(rcpt), no(smtptest.Reset)}, "EHLO MAIL RCPT RSET EHLO"},
		"RSET closes": {
			nil, rcpt,
			[]smtptest.Rule{no(rcpt), {Stage: smtptest.Reset, Close: true}},
			"EHLO MAIL RCPT RSET EHLO",
		},

		"the sender":    {pipelining, mail, []smtptest.Rule{no(mail)}, "EHLO MAIL RCPT DATA RSET"},
		"the recipient": {pipelining, rcpt, []smtptest.Rule{no(rcpt)}, "EHLO MAIL RCPT DATA RSET"},
		"DATA":          {pipelining, data, []smtptest.Rule{no(data)}, "EHLO MAIL RCPT DATA RSET"},

		"the sender, and 354":    {pipelining, mail, []smtptest.Rule{no(mail), at(data, "354 go on")}, "EHLO MAIL RCPT DATA EHLO"},
		"the recipient, and 354": {pipelining, rcpt, []smtptest.Rule{no(rcpt), at(data, "354 go on")}, "EHLO MAIL RCPT DATA EHLO"},

		"and closed":     {pipelining, rcpt, []smtptest.Rule{no(rcpt), {Stage: data, Times: 1, Close: true}}, "EHLO MAIL RCPT DATA EHLO"},
		"and 421":        {pipelining, rcpt, []smtptest.Rule{no(rcpt), at(data, "421 4.3.2 bye")}, "EHLO MAIL RCPT DATA EHLO"},
		"and 421 midway": {pipelining, mail, []smtptest.Rule{no(mail), at(rcpt, "421 4.3.2 bye")}, "EHLO MAIL RCPT DATA EHLO"},
		"and half a refusal": {
			pipelining, rcpt,
			[]smtptest.Rule{no(rcpt), {Stage: data, Times: 1, Raw: "503 5.5", Close: true}},
			"EHLO MAIL RCPT DATA EHLO",
		},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			server, s := inBubble(t, smtptest.Script{Extensions: c.extensions, Rules: c.rules})
			_, err := s.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, outcome{delivery.Rejected, seenAt[c.stage], 550, "5.1.1"})
			synctest.Wait()
			sendAll(t, s, 2, 2)
			expectCounts(t, server, 1, strings.Count(c.dialogue, "EHLO"))
			servertest.Same(t, name+": the dialogue", verbs(server), c.dialogue+" MAIL RCPT DATA")
		})
	}
}

// A reply without text counts as a reply (RFC 5321 section 4.2), whether it arrives in one piece or
// byte by byte.
func TestRepliesWithoutText(t *testing.T) {
	bothWays(t, func(t *testing.T, extensions []string) {
		for _, slow := range []bool{false, true} {
			bare := func(stage smtptest.Stage, reply string) smtptest.Rule {
				return smtptest.Rule{Stage: stage, Reply: reply, Slow: slow}
			}
			server, s := overTCP(t, smtptest.Script{Extensions: extensions, Rules: []smtptest.Rule{
				bare(smtptest.Greet, "220-protected\r\n220"), bare(smtptest.Mail, "250"),
				{Stage: smtptest.Rcpt, Skip: 1, Reply: "550"},
				bare(smtptest.Rcpt, "250"), bare(smtptest.Data, "354"),
				bare(smtptest.Dot, "250-\r\n250"),
			}})
			receipt, err := s.Send(t.Context(), smtptest.Sample(1))
			expect(t, err, outcome{})
			servertest.Same(t, "the reply that accepted", receipt.ReplyCodes, "250")
			_, err = s.Send(t.Context(), smtptest.Sample(2))
			expect(t, err, outcome{Class: delivery.Rejected, Stage: delivery.StageRcpt, Status: 550})
			expectCounts(t, server, 1, 1)
		}
	})
}

// If anything fails on a kept connection before 354, the mail is sent once more over a new
// connection. It is not sent again if the new connection fails too, or if the server has answered
// 354 or refused the mail. The replies 421 and 503 refuse the connection, not the mail.
func TestKeptConnectionThatFails(t *testing.T) {
	sent := outcome{}
	notSent := func(stage string) outcome { return outcome{Class: delivery.Temporary, Stage: stage} }
	rows := map[string]struct {
		rule                  smtptest.Rule
		want                  outcome
		messages, connections int
	}{
		"closed while idle": {smtptest.Rule{Stage: smtptest.Idle, Times: 1, Close: true}, sent, 2, 2},
		"421 while idle": {smtptest.Rule{
			Stage: smtptest.Idle, Times: 1, Reply: "421 4.4.2 idle for too long",
			Close: true,
		}, sent, 2, 2},
		"a line out of turn": {smtptest.Rule{Stage: smtptest.Idle, Times: 1, Reply: "250 2.0.0 by the way"}, sent, 2, 2},
		"closed at MAIL":     {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Close: true}, sent, 2, 2},
		"421 at MAIL":        {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Reply: "421 4.4.5 busy"}, sent, 2, 2},
		"503 at MAIL": {
			smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Reply: "503 5.5.1 Sender already specified"},
			sent, 2, 2,
		},
		"503 at MAIL, on the fresh one too": {
			smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Reply: "503 5.5.1 no"},
			outcome{delivery.Rejected, delivery.StageMail, 503, "5.5.1"},
			1, 2,
		},
		"half a refusal at MAIL":  {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Times: 1, Raw: "550 5.1", Close: true}, sent, 2, 2},
		"closed at RCPT":          {smtptest.Rule{Stage: smtptest.Rcpt, Skip: 1, Times: 1, Close: true}, sent, 2, 2},
		"250 in place of the 354": {smtptest.Rule{Stage: smtptest.Data, Skip: 1, Times: 1, Reply: "250 ok"}, sent, 2, 2},

		"the fresh one fails too": {smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Close: true}, notSent(delivery.StageMail), 1, 2},
		"reset within the body":   {smtptest.Rule{Stage: smtptest.Body, Skip: 1, Abort: true}, notSent(delivery.StageBody), 1, 1},
		"closed after the dot": {
			smtptest.Rule{Stage: smtptest.Dot, Skip: 1, Close: true},
			outcome{Class: delivery.Unknown, Stage: delivery.StageDot},
			2, 1,
		},
		"refused for now": {
			smtptest.Rule{Stage: smtptest.Rcpt, Skip: 1, Reply: "450 4.2.1 busy"},
			outcome{delivery.Temporary, delivery.StageRcpt, 450, "4.2.1"},
			1, 1,
		},
		"refused for good": {
			smtptest.Rule{Stage: smtptest.Mail, Skip: 1, Reply: "550 5.7.1 no"},
			outcome{delivery.Rejected, delivery.StageMail, 550, "5.7.1"},
			1, 1,
		},
		"421 after the dot": {
			smtptest.Rule{Stage: smtptest.Dot, Skip: 1, Reply: "421 4.3.0 no"},
			outcome{delivery.Temporary, delivery.StageDot, 421, "4.3.0"},
			1, 1,
		},
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

// The client waits 5 s for the first reply on a kept connection. Then the mail goes over a fresh
// connection. Later replies, and those on a fresh connection, may be slower.
func TestKeptConnectionThatIsSilent(t *testing.T) {
	refused := smtptest.Rule{Stage: smtptest.Rcpt, Times: 1, Reply: "450 4.2.1 busy"}
	for name, c := range map[string]struct {
		rules       []smtptest.Rule
		took        time.Duration // of the second mail
		connections int
	}{
		"dark at MAIL": {[]smtptest.Rule{{Stage: smtptest.Mail, Skip: 1, Times: 1, Stall: true}}, 5 * time.Second, 2},
		"dark at RSET": {[]smtptest.Rule{refused, {Stage: smtptest.Reset, Times: 1, Stall: true}}, 5 * time.Second, 2},
		"slow at RCPT": {[]smtptest.Rule{{Stage: smtptest.Rcpt, Skip: 1, Delay: 6 * time.Second}}, 6 * time.Second, 1},
		"dark at MAIL, and slow to greet": {[]smtptest.Rule{
			{Stage: smtptest.Mail, Skip: 1, Times: 1, Stall: true},
			{Stage: smtptest.Greet, Skip: 1, Delay: 6 * time.Second},
		}, 11 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) { // the bubble's clock moves only by waits
				server, s := inBubble(t, smtptest.Misbehaving(c.rules...))
				_, _ = s.Send(t.Context(), smtptest.Sample(1))
				began := time.Now()
				_, err := s.Send(t.Context(), smtptest.Sample(2))
				expect(t, err, outcome{})
				servertest.Same(t, "time, and connections", [2]any{time.Since(began), server.Connections()}, [2]any{c.took, c.connections})
			})
		})
	}
}
