package smtp_test

import (
	"bytes"
	"fmt"
	"mime"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// plainLines checks that the message is 7-bit, and that each line has at most 998 octets and ends
// only with CRLF.
func plainLines(t *testing.T, data []byte) {
	t.Helper()
	for line := range bytes.Lines(data) {
		body, ok := bytes.CutSuffix(line, []byte("\r\n"))
		if !ok || len(body) > 998 || bytes.ContainsFunc(body, func(r rune) bool {
			return r > 0x7e || r < ' ' && r != '\t'
		}) {
			t.Errorf("line of %d octets: %.80q", len(line), line)
		}
	}
}

// A server without SMTPUTF8 gets no address with a non-ASCII local part, but does get
// internationalised domains.
func TestSendEnvelope(t *testing.T) {
	for _, c := range []struct{ from, to, sender, recipient, options string }{
		{`"Codes, Ltd." <No.Reply@Codes.example>`, "A+b=c@X.example", "No.Reply@Codes.example", "A+b=c@X.example", ""},
		{"no-reply@codes.example", `"ada..l."@example.org`, "no-reply@codes.example", `"ada..l."@example.org`, ""},
		{"Codes <no-reply@bücher.example>", "ada@bücher.example", "no-reply@xn--bcher-kva.example", "ada@xn--bcher-kva.example", ""},
		{"no-reply@codes.example", "用户@例子.example", "no-reply@codes.example", "用户@xn--fsqu00a.example", " SMTPUTF8"},
		{"用户@codes.example", "a@localhost", "用户@codes.example", "a@localhost", " SMTPUTF8"},
		{"post@localhost", "a@localhost", "post@localhost", "a@localhost", ""},
	} {
		for _, extensions := range [][]string{nil, {"8BITMIME"}} {
			server, s := overTCP(t, smtptest.Script{Extensions: extensions})
			m := smtptest.Sample(1)
			m.From, m.To = c.from, c.to
			_, err := s.Send(t.Context(), m)
			want := []string{
				"EHLO localhost", "MAIL FROM:<" + c.sender + "> BODY=8BITMIME" + c.options,
				"RCPT TO:<" + c.recipient + ">", "DATA",
			}
			if refused := c.options != "" && extensions != nil; refused {
				want = want[:1]
				expect(t, err, outcome{Class: delivery.Rejected, Stage: delivery.StageMail})
			} else {
				expect(t, err, outcome{})
			}
			if got := server.Commands(); !slices.Equal(got, want) {
				t.Errorf("commands %q", got)
			}
		}
	}
}

// The longest and the most unusual permitted values are accepted. The first line of subject and
// sender is not empty, and no line with an encoded word is longer than 76 octets (RFC 2047 section
// 2).
func TestSendable(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	to := func(to string) func(*delivery.Mail) { return func(m *delivery.Mail) { m.To = to } }
	said := func(words string) func(*delivery.Mail) {
		return func(m *delivery.Mail) {
			m.Subject, m.From = words, strings.ReplaceAll(words, ",", "")+" <no-reply@codes.example>"
		}
	}
	for n, change := range []func(*delivery.Mail){
		to(strings.Repeat("x", 64) + "@example.org"),
		to(strings.Repeat("x", 64) + "@" + strings.Repeat("abcdefg.", 23) + "abcde"),
		to("!#$%&'*+-/=?^_`{|}~@example.org"), to("a@r4---sn.example.org"),
		func(m *delivery.Mail) { m.Subject = "" },
		func(m *delivery.Mail) { m.Subject = strings.Repeat("验", 300) },
		func(m *delivery.Mail) { m.Text = "\x00\x01\r\r\n.\n\u2028" },
		said("您的验证码"), said("您的验证码是用于登录商店的一次性密码请勿告诉他人"), said("Ваш код подтверждения для магазина"),
		said("Bestätigungscode für den Laden, 10 Minuten gültig"), said("a" + strings.Repeat("é", 100)),
		said(strings.Repeat("long", 30) + " word"),
		said(strings.Repeat("ascii ", 30) + "é"), said(strings.Repeat("🔑", 40)),
	} {
		m := smtptest.Sample(n)
		change(&m)
		if _, err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		data := server.Messages()[n].Data
		plainLines(t, data)
		parsed, err := mail.ReadMessage(bytes.NewReader(data))
		servertest.OK(t, err)
		for name, want := range map[string]string{"From": m.From, "Subject": m.Subject} {
			got, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get(name))
			if err != nil || strings.ReplaceAll(got, `"`, "") != want {
				t.Errorf("%s is %q, want %q; %v", name, got, want, err)
			}
		}
		head, _, _ := bytes.Cut(data, []byte("\r\n\r\n"))
		for line := range strings.Lines(string(head)) {
			line = strings.TrimRight(line, "\r\n")
			if line == "Subject:" && m.Subject != "" || line == "From:" ||
				len(line) > 76 && strings.Contains(line, "=?") {
				t.Errorf("%q", line)
			}
		}
	}
}

// Any message is either rejected before dialling, or arrives as one mail with one sender, one
// recipient, and each of its headers once.
func FuzzHeaders(f *testing.F) {
	f.Add("send-1@codes.example", "Codes <no-reply@codes.example>", recipient, "Your code", "en", "text", "<p>html</p>")
	f.Add("a@b", "a@b\r\nBcc: c@d", "a@b>\r\nRCPT TO:<c@d", "x\r\n\r\nbody", "e\nn", ".\r\n", "\r\n.\r\n")
	f.Add("a@b", "=?utf-8?q?=0A?= <a@b>", "用户@例子.example", "🔑\u2028\x00", "zh-Hant", "\r\n.\r\nMAIL FROM:<x@y>\r\n", "")
	f.Add("a@b", "\"\\\"\" <a@b>", "a@b", " =?x?= ", "-", "--\r\n\r\n", "\x00")
	f.Fuzz(func(t *testing.T, id, from, to, subject, language, text, html string) {
		server, s := inBubble(t, smtptest.Script{})
		m := delivery.Mail{
			MessageID: id, To: to, Subject: subject, Text: text, HTML: html, Date: time.Unix(1, 0),
			SharedFields: delivery.SharedFields{From: from, Language: language},
		}
		if _, err := s.Send(t.Context(), m); err != nil {
			if o := outcomeOf(t, err); o != (outcome{Class: delivery.Rejected, Stage: delivery.StagePrepare}) ||
				server.Connections() != 0 {
				t.Fatalf("got %v over %d connections", o, server.Connections())
			}
			return
		}
		if got := verbs(server); got != "EHLO MAIL RCPT DATA" || len(server.Messages()) != 1 {
			t.Fatalf("dialogue %q, %d messages", got, len(server.Messages()))
		}
		checkFuzzed(t, server.Messages()[0], m)
	})
}

func checkFuzzed(t *testing.T, got smtptest.Message, m delivery.Mail) {
	header, err := mail.ReadMessage(bytes.NewReader(got.Data))
	servertest.OK(t, err)
	known := []string{
		"Auto-Submitted", "Content-Language", "Content-Transfer-Encoding", "Content-Type", "Date", "From",
		"Message-Id",
		"Mime-Version", "References", "Subject", "To", "X-Auto-Response-Suppress", "X-Entity-Ref-Id",
	}
	for name, values := range header.Header {
		if !slices.Contains(known, name) || len(values) != 1 {
			t.Fatalf("header %q %d times", name, len(values))
		}
	}
	to, err := header.Header.AddressList("To")
	if err != nil || len(to) != 1 || len(got.To) != 1 || to[0].Address != got.To[0] {
		t.Fatalf("header %v and envelope %q differ", to, got.To)
	}
	if local, _, _ := strings.Cut(m.To, "@"); !strings.HasPrefix(got.To[0], local+"@") {
		t.Fatal("the local part was changed")
	}
	if n := bytes.Count(got.Data, []byte("\r\n")); n != bytes.Count(got.Data, []byte("\n")) ||
		n != bytes.Count(got.Data, []byte("\r")) {
		t.Fatal("a bare CR or LF on the wire")
	}
}

// codeForm is a form with the code in its text, and with the code and the token in its HTML.
type codeForm struct{}

func (codeForm) Texts(fill, token string) (subject, text, html string, err error) {
	return "Your code", "Code: " + fill + "\n", "<p>" + fill + token + "</p>", nil
}

// Mails of one form that are sent at once share their encoded parts, and each has its own
// recipient, code and ID.
func TestConcurrentSendsOfOneFormAreNotMixedUp(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{Extensions: pipelining})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 25 {
				m := smtptest.Sample(100*worker + n)
				m.MessageID = fmt.Sprintf("0199a1b2-c3d4-7e5f-8a6b-%012d@codes.example", 100*worker+n)
				// IDs and boundaries contain random digits, but not these two letters.
				m.Form, m.Fill = codeForm{}, fmt.Sprintf("Q%06dZ", 100*worker+n)
				m.To, m.Token = "code-"+m.Fill+"@example.com", "/"+m.Fill
				if _, err := s.Send(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, got := range server.Messages() {
		fill := strings.TrimSuffix(strings.TrimPrefix(got.To[0], "code-"), "@example.com")
		if n := bytes.Count(got.Data, []byte(fill)); n != 4 ||
			!bytes.Contains(got.Data, []byte("To: <"+got.To[0]+">")) {
			t.Errorf("to %s, %d of 4 times its code:\n%s", got.To[0], n, got.Data)
		}
	}
}
