package smtp_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// misbehaviour is one row: the server's behaviour and the expected outcome.
type misbehaviour struct {
	name string
	rule smtptest.Rule
	want outcome
	// accepted is the number of messages that the server accepted.
	accepted int
}

// inBubble reports whether a row runs only in a bubble: it needs minutes on the clock, or the
// kernel may show its fault at another stage.
func (mi misbehaviour) inBubble() bool {
	return mi.rule.Stall || mi.rule.Pause > 0 || mi.rule.Delay > 0 || mi.rule.Abort && mi.rule.Stage == smtptest.Greet
}

// seenAt has the stage that an error names for a stage of the script. The client treats the
// greeting and EHLO as one stage.
var seenAt = map[smtptest.Stage]string{
	smtptest.Greet: delivery.StageHello, smtptest.Hello: delivery.StageHello, smtptest.Mail: delivery.StageMail,
	smtptest.Rcpt: delivery.StageRcpt, smtptest.Data: delivery.StageData, smtptest.Dot: delivery.StageDot,
}

// misbehaviours returns a row for every kind of failure at every stage.
func misbehaviours() (rows []misbehaviour) {
	for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot} {
		rows = append(rows, refusals(stage)...)
		rows = append(rows, silences(stage)...)
	}
	for name, rule := range map[string]smtptest.Rule{
		"reset within the body": {Abort: true}, "closed within the body": {Close: true},
		"the rest is never read":  {Stall: true},
		"refused within the body": {Reply: blabbing("552 5.3.4"), Close: true},
	} {
		rule.Stage = smtptest.Body
		rows = append(rows, misbehaviour{name: name, rule: rule, want: outcome{Class: delivery.Temporary, Stage: delivery.StageBody}})
	}
	return append(rows, oddities()...)
}

// refusals returns rows in which a whole reply reports the failure.
func refusals(stage smtptest.Stage) []misbehaviour {
	at, refused := seenAt[stage], delivery.Rejected
	if at == delivery.StageHello {
		refused = delivery.Temporary // the server accepts no mail at all, but another server may
	}
	row := func(name, reply string, close bool, want outcome) misbehaviour {
		return misbehaviour{name: string(stage) + " " + name, rule: smtptest.Rule{Stage: stage, Reply: reply, Close: close}, want: want}
	}
	return []misbehaviour{
		row("421 and close", blabbing("421 4.3.2"), true, outcome{delivery.Temporary, at, 421, "4.3.2"}),
		row("451", blabbing("451 4.7.1"), false, outcome{delivery.Temporary, at, 451, "4.7.1"}),
		row("550", blabbing("550 5.1.1"), false, outcome{refused, at, 550, "5.1.1"}),
		row("554 in two lines", blabbing("554-5.7.1")+"\r\n"+blabbing("554 5.7.1"), false, outcome{refused, at, 554, "5.7.1"}),
		row("550 with a foreign enhanced code", blabbing("550 4.1.1"), false, outcome{refused, at, 550, ""}),
		row("530", blabbing("530 5.7.0"), false, outcome{delivery.Temporary, at, 530, "5.7.0"}),
	}
}

// silences returns failures without a readable reply. Their class is Unknown after the dot,
// otherwise Temporary, and their error never has a code.
func silences(stage smtptest.Stage) []misbehaviour {
	want, accepted := outcome{Class: delivery.Temporary, Stage: seenAt[stage]}, 0
	if stage == smtptest.Dot {
		want.Class, accepted = delivery.Unknown, 1
	}
	var rows []misbehaviour
	add := func(name string, rule smtptest.Rule) {
		rule.Stage = stage
		rows = append(rows, misbehaviour{name: string(stage) + " " + name, rule: rule, want: want, accepted: accepted})
	}
	add("close", smtptest.Rule{Close: true})
	add("reset", smtptest.Rule{Abort: true})
	add("stall", smtptest.Rule{Stall: true})
	add("garbage", smtptest.Rule{Reply: blabbing("what?"), Close: true})
	add("garbage for ever", smtptest.Rule{Raw: "abc-" + strings.Repeat(recipient+"\r\n", 5000), Close: true})
	add("an impossible code", smtptest.Rule{Reply: blabbing("999 5.1.1"), Close: true})
	add("a very long line", smtptest.Rule{Raw: "250 " + strings.Repeat(code, 50_000) + "\r\n", Close: true})
	dawdle := smtptest.Rule{Slow: true, Pause: time.Second, Reply: "250 " + strings.Repeat("x", 30)}
	if stage == smtptest.Dot {
		dawdle.Reply = "250 " + strings.Repeat("x", 600)
	}
	add("a byte a second", dawdle)
	add("half a line and stall", smtptest.Rule{Raw: "2", Stall: true})
	if stage != smtptest.Dot { // after the dot these replies count as refusals
		add("half a refusal and close", smtptest.Rule{Raw: blabbing("550 5.1.1"), Close: true})
		add("half a refusal and reset", smtptest.Rule{Raw: blabbing("550 5.1.1"), Abort: true})
		add("one line of a refusal and close", smtptest.Rule{Reply: blabbing("550-5.1.1"), Close: true})
	}
	if stage != smtptest.Greet && stage != smtptest.Hello { // at those stages the next command finds the closed connection
		add("half an answer and close", smtptest.Rule{Raw: "250 2.0.0 ok", Close: true})
		add("half an answer and stall", smtptest.Rule{Raw: "250 2.0.0 ok", Stall: true})
	}
	return rows
}

// oddities returns rows that occur at a single stage.
func oddities() []misbehaviour {
	return []misbehaviour{
		{
			name: "greeting byte by byte",
			rule: smtptest.Rule{Stage: smtptest.Greet, Slow: true, Reply: "220-hello\r\n220 there"}, accepted: 1,
		},
		{name: "answer byte by byte", rule: smtptest.Rule{Stage: smtptest.Dot, Slow: true, Reply: "250 2.0.0 taken"}, accepted: 1},
		{
			name: "a byte a second, within the limit", accepted: 1,
			rule: smtptest.Rule{Stage: smtptest.Rcpt, Slow: true, Pause: time.Second, Reply: "250 2.1.5 in a minute"},
		},
		{name: "EHLO unknown, HELO known", rule: smtptest.Rule{Stage: smtptest.Hello, Times: 1, Reply: "500 5.5.1 what?"}, accepted: 1},
		{name: "other 2xx after the dot", rule: smtptest.Rule{Stage: smtptest.Dot, Reply: "252 2.0.0 queued"}, accepted: 1},
		{
			name: "3xx after the dot", rule: smtptest.Rule{Stage: smtptest.Dot, Reply: "354 more"}, accepted: 1,
			want: outcome{Class: delivery.Unknown, Stage: delivery.StageDot, Status: 354},
		},
		{
			name: "250 in place of 354", rule: smtptest.Rule{Stage: smtptest.Data, Reply: "250 ok"},
			want: outcome{Class: delivery.Temporary, Stage: delivery.StageData, Status: 250},
		},
		{
			name: "an answer before the body", rule: smtptest.Rule{Stage: smtptest.Data, Raw: "354 go\r\n250 2.0.0 accepted\r\n"},
			want: outcome{Class: delivery.Temporary, Stage: delivery.StageBody},
		},
		{name: "late 250", accepted: 1, rule: smtptest.Rule{Stage: smtptest.Dot, Delay: 9 * time.Minute}},
		{
			name: "too late 250", accepted: 1, rule: smtptest.Rule{Stage: smtptest.Dot, Delay: 11 * time.Minute},
			want: outcome{Class: delivery.Unknown, Stage: delivery.StageDot},
		},
		{name: "250 and reset", accepted: 1, rule: smtptest.Rule{Stage: smtptest.Idle, Abort: true}},
	}
}

// Every row runs with the default timeouts on a virtual clock, with and without PIPELINING. With
// PIPELINING, rows that need no waiting also run over real sockets, which have buffers and resets
// that a pipe lacks.
func TestSendMisbehaviour(t *testing.T) {
	bothWays(t, func(t *testing.T, extensions []string) {
		for _, row := range misbehaviours() {
			t.Run(row.name, func(t *testing.T) {
				script := smtptest.Script{Extensions: extensions, Rules: []smtptest.Rule{row.rule}}
				servertest.Bubble(t, func(t *testing.T) { row.run(t, smtptest.New(t, script)) })
				if !row.inBubble() && extensions != nil {
					row.run(t, smtptest.Start(t, script))
				}
			})
		}
	})
}

func (mi misbehaviour) run(t *testing.T, server *smtptest.Server) {
	m, change := smtptest.Sample(1), func(*smtp.Config) {}
	if mi.rule.Stage == smtptest.Body {
		m = bigMessage(1)
		if server.Addr() != "" {
			change = unbuffered
		}
	}
	s := server.Sender(t, change)
	receipt, err := s.Send(t.Context(), m)
	expect(t, err, mi.want)
	if receipt.Provider != "127.0.0.1" || strings.HasPrefix(receipt.ReplyCodes, "2") != (err == nil) || receipt.Took < 0 {
		t.Errorf("receipt %+v does not fit the outcome", receipt)
	}
	s.Close()
	server.Stop()
	servertest.Same(t, "messages that the server accepted", len(server.Messages()), mi.accepted)
	if server.Connections() > 1 {
		t.Errorf("%d connections for one mail over a fresh connection", server.Connections())
	}
}

// A dial to a host that drops packets ends after ten seconds.
func TestSendDialTimeout(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var dials atomic.Int32
		s := smtptest.NewSender(t, smtp.Config{Host: smtptest.BlackHole, Dial: smtptest.DialBlackHole(&dials)})
		began := time.Now()
		_, err := s.Send(t.Context(), smtptest.Sample(1))
		expect(t, err, outcome{Class: delivery.Temporary, Stage: delivery.StageDial})
		if time.Since(began) != 10*time.Second || dials.Load() != 1 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The server sends any bytes in place of an answer, and then closes the connection. Only a whole
// line that starts with the right code counts as an answer, and no error quotes the server.
func FuzzReplies(f *testing.F) {
	stages := []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot}
	f.Fuzz(func(t *testing.T, n int, said []byte) {
		if n < 0 || n >= len(stages) || len(said) == 0 {
			t.Skip()
		}
		servertest.Bubble(t, func(t *testing.T) {
			server := smtptest.New(t, smtptest.Misbehaving(smtptest.Rule{Stage: stages[n], Raw: string(said), Close: true}))
			_, err := server.Sender(t).Send(t.Context(), smtptest.Sample(1))
			checkReply(t, outcomeOf(t, err), stages[n], said)
		})
	})
}

func checkReply(t *testing.T, got outcome, stage smtptest.Stage, said []byte) {
	whole := bytes.Contains(said, []byte("\n"))
	switch {
	case got == outcome{}:
		if stage != smtptest.Dot || !whole || said[0] != '2' {
			t.Fatalf("accepted at %s upon %q", stage, said)
		}
	case got.Class == delivery.Rejected:
		if !whole || said[0] != '5' || got.Status/100 != 5 {
			t.Fatalf("%v upon %q", got, said)
		}
	case got.Class == delivery.Unknown && stage != smtptest.Dot:
		t.Fatalf("%v upon %q at %s", got, said, stage)
	}
}

// The words of a server's refusal are kept, at any stage and from each line, except the recipient,
// the code and the login.
func TestErrorKeepsTheWordsOfARefusal(t *testing.T) {
	const said = " <" + recipient + "> blocked, see https://www.spamhaus.org/query/ip/203.0.113.5?to=" + recipient +
		" or https://example.com/" + code + "/Lovelace"
	const want = "… blocked, see https://www.spamhaus.org/query/ip/203.0.113.5?… or https://example.com/…/…"
	bothWays(t, func(t *testing.T, extensions []string) {
		for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot} {
			rule := smtptest.Rule{Stage: stage, Reply: "554-5.7.1" + said + "\r\n554 5.7.1" + said}
			if stage == smtptest.Greet { // no recipient was named
				rule.Reply = strings.ReplaceAll(rule.Reply, code+"/Lovelace", "0123456789/x")
			}
			_, s := overTCP(t, smtptest.Script{Extensions: extensions, Rules: []smtptest.Rule{rule}})
			_, err := s.Send(t.Context(), smtptest.Sample(1))
			fail, ok := errors.AsType[*delivery.Error](err)
			if !ok || stage != smtptest.Greet && fail.Text != want+" "+want ||
				!strings.HasSuffix(fail.Error(), fail.Text) || fail.ReplyCodes() != "554 5.7.1" ||
				strings.Contains(strings.ToLower(fail.Text), "lovelace") {
				t.Errorf("%s: %v", stage, err)
			}
		}
	})
}
