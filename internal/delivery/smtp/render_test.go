package smtp_test

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	gomail "github.com/emersion/go-message/mail"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
)

// onTheWire sends a message and gives what the server received.
func onTheWire(t *testing.T, m delivery.Message) smtptest.Message {
	t.Helper()
	server := smtptest.Start(t, smtptest.Script{})
	if _, err := sender(t, server).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return server.Messages()[0]
}

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
	got := onTheWire(t, m)
	header, parts := parse(t, got.Data)

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
	plainLines(t, got.Data)
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

func TestMessageWithoutHTML(t *testing.T) {
	m := smtptest.Sample(1)
	m.HTML, m.Language = "", ""
	header, parts := parse(t, onTheWire(t, m).Data)
	if !slices.Equal(parts, []part{{"text/plain", "UTF-8", m.Text}}) || header.Get("Content-Language") != "" {
		t.Errorf("parts %q, headers %v", parts, header)
	}
}

// TestTriesAreTheSameBytes: also the Message-ID, so that a recipient of both can tell.
func TestTriesAreTheSameBytes(t *testing.T) {
	server := smtptest.Start(t, misbehaving(smtptest.Rule{Stage: smtptest.Dot, Times: 1, Close: true}))
	for range 2 {
		_, _ = sender(t, server).Send(t.Context(), smtptest.Sample(7))
	}
	_, _ = sender(t, server).Send(t.Context(), smtptest.Sample(8))
	got := server.Messages()
	if len(got) != 3 || got[0].ID != "send-7@codes.example" || !bytes.Equal(got[0].Data, got[1].Data) {
		t.Errorf("two tries differ:\n%s\n%s", got[0].Data, got[1].Data)
	}
	if bytes.Equal(got[0].Data, got[2].Data) {
		t.Error("two messages are the same")
	}
}

func TestEnvelope(t *testing.T) {
	for _, c := range []struct{ from, to, sender, recipient, options string }{
		{`"Codes, Ltd." <No.Reply@Codes.example>`, "A+b=c@X.example", "No.Reply@Codes.example", "A+b=c@X.example", ""},
		{"Codes <no-reply@bücher.example>", "ada@bücher.example", "no-reply@xn--bcher-kva.example", "ada@xn--bcher-kva.example", ""},
		{"no-reply@codes.example", "用户@例子.example", "no-reply@codes.example", "用户@xn--fsqu00a.example", " SMTPUTF8"},
		{"post@localhost", "a@localhost", "post@localhost", "a@localhost", ""},
	} {
		server := smtptest.Start(t, smtptest.Script{})
		m := smtptest.Sample(1)
		m.From, m.To = c.from, c.to
		if _, err := sender(t, server).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		want := []string{"EHLO localhost", "MAIL FROM:<" + c.sender + "> BODY=8BITMIME" + c.options, "RCPT TO:<" + c.recipient + ">", "DATA"}
		if got := server.Commands(); !slices.Equal(got, want) {
			t.Errorf("commands %q", got)
		}
	}
}

// TestServerWithoutSMTPUTF8: a non-ASCII local part fails for good, an internationalised domain does not.
func TestServerWithoutSMTPUTF8(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{Extensions: []string{"8BITMIME"}})
	m := smtptest.Sample(1)
	m.To = "用户@example.org"
	_, err := s.Send(t.Context(), m)
	expect(t, err, outcome{class: delivery.Rejected, stage: delivery.StageMail})
	if strings.Contains(verbs(server), "MAIL") {
		t.Errorf("dialogue %q", verbs(server))
	}
	m.To = "ada@bücher.example"
	_, err = s.Send(t.Context(), m)
	expect(t, err, outcome{})
	m.To, m.From = recipient, "用户@codes.example"
	_, err = s.Send(t.Context(), m)
	expect(t, err, outcome{class: delivery.Rejected, stage: delivery.StageMail})
	expectCounts(t, server, 1, 1)
}

// A header's first line is not empty, and none with an encoded word is longer than 76 octets (RFC 2047 section 2), whatever the
// length of subject and name.
func TestHeadersAreFolded(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	for n, subject := range []string{
		"您的验证码", "您的验证码是用于登录商店的一次性密码请勿告诉他人", "Ваш код подтверждения для магазина", "Bestätigungscode für den Laden, 10 Minuten gültig",
		"a" + strings.Repeat("é", 100), strings.Repeat("long", 30) + " word", strings.Repeat("ascii ", 30) + "é", strings.Repeat("🔑", 40),
		"Your code",
	} {
		m := smtptest.Sample(n)
		m.Subject, m.From = subject, strings.ReplaceAll(subject, ",", "")+" <no-reply@codes.example>"
		if _, err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		data := server.Messages()[n].Data
		header, _ := parse(t, data)
		if got, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject")); err != nil || got != subject {
			t.Errorf("subject %q, %v, want %q", got, err, subject)
		}
		if from, err := header.AddressList("From"); err != nil || from[0].Name != strings.ReplaceAll(subject, ",", "") ||
			from[0].Address != "no-reply@codes.example" {
			t.Errorf("From %v, %v", from, err)
		}
		head, _, _ := bytes.Cut(data, []byte("\r\n\r\n"))
		for line := range bytes.Lines(head) {
			line = bytes.TrimRight(line, "\r\n")
			if bytes.HasSuffix(line, []byte(":")) || len(line) > 76 && bytes.Contains(line, []byte("=?")) {
				t.Errorf("%q", line)
			}
		}
	}
}
