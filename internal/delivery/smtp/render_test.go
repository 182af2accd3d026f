package smtp_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gomail "github.com/emersion/go-message/mail"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
)

// part is one body of a message, decoded.
type part struct{ kind, charset, text string }

func parse(t *testing.T, data []byte) (header mail.Header, bodies []part) {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gomail.CreateReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for {
		p, err := r.NextPart()
		if err == io.EOF {
			return m.Header, bodies
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, parameters, err := p.Header.(*gomail.InlineHeader).ContentType()
		text, unread := io.ReadAll(p.Body)
		if err != nil || unread != nil {
			t.Fatal(err, unread)
		}
		bodies = append(bodies, part{kind, parameters["charset"], strings.ReplaceAll(string(text), "\r\n", "\n")})
	}
}

func TestMessageOnTheWire(t *testing.T) {
	m := smtptest.Sample(1)
	m.From, m.To = "Läden & Söhne <no-reply@codes.example>", recipient
	m.Subject, m.Language = "您的验证码 🔑 "+strings.Repeat("long ", 40)+"end", "zh-Hans"
	m.Text = "您的验证码\n\n" + code + "\n.\n..\n.leading dot\nFrom here\n" + strings.Repeat("x", 3000) + " trailing \n"
	m.HTML = "<p lang=zh>验证码 <b>" + code + "</b></p>\n.\n"
	m.Date = time.Date(2026, 3, 4, 5, 6, 7, 999, time.FixedZone("", 3600))
	m.Marks = map[string]string{"X-Pm-Metadata-Send": "0198c1d2-7a54-7a3e-8a4f-000000000001"}
	server, s := overTCP(t, smtptest.Script{})
	sendMessage(t, s, m)
	header, parts := parse(t, server.Messages()[0].Data)
	want := []part{{"text/plain", "UTF-8", m.Text}, {"text/html", "UTF-8", m.HTML}}
	if !slices.Equal(parts, want) || !strings.HasPrefix(header.Get("Content-Type"), "multipart/alternative;") {
		t.Errorf("%s, parts %q\nwant  %q", header.Get("Content-Type"), parts, want)
	}
	decoder := new(mime.WordDecoder)
	if subject, err := decoder.DecodeHeader(header.Get("Subject")); err != nil || subject != m.Subject {
		t.Errorf("subject %q, %v", subject, err)
	}
	from, err := header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Läden & Söhne" || from[0].Address != "no-reply@codes.example" {
		t.Errorf("From %v, %v", from, err)
	}
	for name, want := range map[string]string{
		"To": "<" + recipient + ">", "Message-Id": "<" + m.ID + ">", "Date": "Wed, 04 Mar 2026 04:06:07 +0000",
		"Mime-Version": "1.0", "Auto-Submitted": "auto-generated", "Content-Language": "zh-Hans",
		"X-Pm-Metadata-Send": m.Marks["X-Pm-Metadata-Send"],
	} {
		if header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, header.Get(name), want)
		}
	}
	// Nothing beside these: no User-Agent, no X-Mailer, no List-Unsubscribe.
	names := slices.Sorted(maps.Keys(header))
	wantNames := []string{"Auto-Submitted", "Content-Language", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To",
		"X-Pm-Metadata-Send"}
	if !slices.Equal(names, wantNames) {
		t.Errorf("headers %q, want %q", names, wantNames)
	}
	plainLines(t, server.Messages()[0].Data)

	m.HTML, m.Language = "", ""
	sendMessage(t, s, m)
	header, parts = parse(t, server.Messages()[1].Data)
	if !slices.Equal(parts, want[:1]) || header.Get("Content-Language") != "" {
		t.Errorf("without HTML and language: parts %q, headers %v", parts, header)
	}
}

func sendMessage(t *testing.T, s *smtp.Client, m delivery.Message) {
	t.Helper()
	if _, err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// plainLines checks that the message is 7-bit, with lines of at most 998 octets that end in CRLF and nothing else.
func plainLines(t *testing.T, data []byte) {
	t.Helper()
	for line := range bytes.Lines(data) {
		body, ok := bytes.CutSuffix(line, []byte("\r\n"))
		if !ok || len(body) > 998 || bytes.ContainsFunc(body, func(r rune) bool { return r > 0x7e || r < ' ' && r != '\t' }) {
			t.Errorf("line of %d octets: %.80q", len(line), line)
		}
	}
}

// TestEnvelope: a server without SMTPUTF8 is offered no address with a non-ASCII local part, but internationalised domains.
func TestEnvelope(t *testing.T) {
	for _, c := range []struct{ from, to, sender, recipient, options string }{
		{`"Codes, Ltd." <No.Reply@Codes.example>`, "A+b=c@X.example", "No.Reply@Codes.example", "A+b=c@X.example", ""},
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
			want := []string{"EHLO localhost", "MAIL FROM:<" + c.sender + "> BODY=8BITMIME" + c.options, "RCPT TO:<" + c.recipient + ">", "DATA"}
			if refused := c.options != "" && extensions != nil; refused {
				want = want[:1]
				expect(t, err, outcome{class: delivery.Rejected, stage: delivery.StageMail})
			} else {
				expect(t, err, outcome{})
			}
			if got := server.Commands(); !slices.Equal(got, want) {
				t.Errorf("commands %q", got)
			}
		}
	}
}

// TestSendable: the longest and oddest that are still right. The first line of subject and sender is not empty, and no line with an encoded
// word is longer than 76 octets (RFC 2047 section 2).
func TestSendable(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	to := func(to string) func(*delivery.Message) { return func(m *delivery.Message) { m.To = to } }
	said := func(words string) func(*delivery.Message) {
		return func(m *delivery.Message) {
			m.Subject, m.From = words, strings.ReplaceAll(words, ",", "")+" <no-reply@codes.example>"
		}
	}
	for n, change := range []func(*delivery.Message){
		to(strings.Repeat("x", 64) + "@example.org"), to(strings.Repeat("x", 64) + "@" + strings.Repeat("abcdefg.", 23) + "abcde"),
		to("!#$%&'*+-/=?^_`{|}~@example.org"), to("a@r4---sn.example.org"),
		func(m *delivery.Message) { m.Subject = "" },
		func(m *delivery.Message) { m.Subject = strings.Repeat("验", 300) },
		func(m *delivery.Message) { m.Text = "\x00\x01\r\r\n.\n\u2028" },
		said("您的验证码"), said("您的验证码是用于登录商店的一次性密码请勿告诉他人"), said("Ваш код подтверждения для магазина"),
		said("Bestätigungscode für den Laden, 10 Minuten gültig"), said("a" + strings.Repeat("é", 100)), said(strings.Repeat("long", 30) + " word"),
		said(strings.Repeat("ascii ", 30) + "é"), said(strings.Repeat("🔑", 40)),
	} {
		m := smtptest.Sample(n)
		change(&m)
		sendMessage(t, s, m)
		data := server.Messages()[n].Data
		plainLines(t, data)
		header, _ := parse(t, data)
		if got, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject")); err != nil || got != m.Subject {
			t.Errorf("subject %q, %v, want %q", got, err, m.Subject)
		}
		want, _ := mail.ParseAddress(m.From)
		if from, err := header.AddressList("From"); err != nil || *from[0] != *want {
			t.Errorf("From %v, %v", from, err)
		}
		head, _, _ := bytes.Cut(data, []byte("\r\n\r\n"))
		for line := range strings.Lines(string(head)) {
			line = strings.TrimRight(line, "\r\n")
			if line == "Subject:" && m.Subject != "" || line == "From:" || len(line) > 76 && strings.Contains(line, "=?") {
				t.Errorf("%q", line)
			}
		}
	}
}

// FuzzHeaders: whatever stands in a message, it is rejected before dialling or arrives as one mail, with one sender, one
// recipient, and the headers that it should have, each once.
func FuzzHeaders(f *testing.F) {
	f.Add("send-1@codes.example", "Codes <no-reply@codes.example>", recipient, "Your code", "en", "text", "<p>html</p>")
	f.Add("a@b", "a@b\r\nBcc: c@d", "a@b>\r\nRCPT TO:<c@d", "x\r\n\r\nbody", "e\nn", ".\r\n", "\r\n.\r\n")
	f.Add("a@b", "=?utf-8?q?=0A?= <a@b>", "用户@例子.example", "🔑\u2028\x00", "zh-Hant", "\r\n.\r\nMAIL FROM:<x@y>\r\n", "")
	f.Add("a@b", "\"\\\"\" <a@b>", "a@b", " =?x?= ", "-", "--\r\n\r\n", "\x00")
	f.Fuzz(func(t *testing.T, id, from, to, subject, language, text, html string) {
		server, s := inBubble(t, smtptest.Script{})
		m := delivery.Message{ID: id, From: from, To: to, Subject: subject, Language: language, Text: text, HTML: html, Date: time.Unix(1, 0)}
		if _, err := s.Send(t.Context(), m); err != nil {
			if o := outcomeOf(t, err); o != (outcome{class: delivery.Rejected, stage: delivery.StageMessage}) || server.Connections() != 0 {
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

func checkFuzzed(t *testing.T, got smtptest.Message, m delivery.Message) {
	header, err := mail.ReadMessage(bytes.NewReader(got.Data))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"Auto-Submitted", "Content-Language", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id",
		"Mime-Version", "Subject", "To"}
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
	if n := bytes.Count(got.Data, []byte("\r\n")); n != bytes.Count(got.Data, []byte("\n")) || n != bytes.Count(got.Data, []byte("\r")) {
		t.Fatal("a bare CR or LF on the wire")
	}
}

// codeForm is a form with the code in text and HTML.
type codeForm struct{}

func (codeForm) Texts(fill string) (subject, text, html string, err error) {
	return "Your code", "Code: " + fill + "\n", "<p>" + fill + "</p>", nil
}

// Mails of one form that are sent at once share a layout, and have each their own recipient, code and ID.
func TestLayoutsAreNotMixedUp(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{Extensions: pipelining})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 25 {
				m := smtptest.Sample(100*worker + n)
				m.ID = fmt.Sprintf("0199a1b2-c3d4-7e5f-8a6b-%012d@codes.example", 100*worker+n)
				m.Form, m.Fill = codeForm{}, fmt.Sprintf("%06d", rand.IntN(1_000_000))
				m.To = "code-" + m.Fill + "@example.com"
				if _, err := s.Send(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, got := range server.Messages() {
		fill := strings.TrimSuffix(strings.TrimPrefix(got.To[0], "code-"), "@example.com")
		if n := bytes.Count(got.Data, []byte(fill)); n != 3 || !bytes.Contains(got.Data, []byte("To: <"+got.To[0]+">")) {
			t.Errorf("to %s, %d of 3 times its code:\n%s", got.To[0], n, got.Data)
		}
	}
}
