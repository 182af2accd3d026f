package smtp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
)

// TestSendable: the longest and oddest that are still right.
func TestSendable(t *testing.T) {
	server, s := overTCP(t, smtptest.Script{})
	for n, change := range []func(*delivery.Message){
		func(m *delivery.Message) { m.To = strings.Repeat("x", 64) + "@example.org" },
		func(m *delivery.Message) {
			m.To = strings.Repeat("x", 64) + "@" + strings.Repeat("abcdefg.", 23) + "abcde"
		},
		func(m *delivery.Message) { m.To = "!#$%&'*+-/=?^_`{|}~@example.org" },
		func(m *delivery.Message) { m.To = "a@r4---sn.example.org" },
		func(m *delivery.Message) { m.Subject = "" },
		func(m *delivery.Message) { m.Subject = strings.Repeat("验", 300) },
		func(m *delivery.Message) { m.Text = "\x00\x01\r\r\n.\n\u2028" },
	} {
		m := smtptest.Sample(n)
		change(&m)
		if _, err := s.Send(t.Context(), m); err != nil {
			t.Errorf("case %d: %v", n, err)
		}
	}
	for _, m := range server.Messages() {
		plainLines(t, m.Data)
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
