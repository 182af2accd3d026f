package smtp_test

import (
	"bytes"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
)

// TestUnsendable: what cannot be sent is rejected before anything is dialled.
func TestUnsendable(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, change := range map[string]func(*delivery.Message){
		"no recipient":                        func(m *delivery.Message) { m.To = "" },
		"no at sign":                          func(m *delivery.Message) { m.To = "ada" },
		"no local part":                       func(m *delivery.Message) { m.To = "@example.org" },
		"no domain":                           func(m *delivery.Message) { m.To = "ada@" },
		"an empty label":                      func(m *delivery.Message) { m.To = "ada@example..org" },
		"a trailing dot":                      func(m *delivery.Message) { m.To = "ada@example.org." },
		"two dots":                            func(m *delivery.Message) { m.To = "ada..lovelace@example.org" },
		"a display name":                      func(m *delivery.Message) { m.To = "Ada <" + recipient + ">" },
		"two recipients":                      func(m *delivery.Message) { m.To = recipient + ",eve@example.org" },
		"a second RCPT":                       func(m *delivery.Message) { m.To = recipient + ">\r\nRCPT TO:<eve@example.org" },
		"a parameter of RCPT":                 func(m *delivery.Message) { m.To = recipient + "> NOTIFY=SUCCESS" },
		"a bracket":                           func(m *delivery.Message) { m.To = "ada>@example.org" },
		"a quoted local part":                 func(m *delivery.Message) { m.To = `"ada lovelace"@example.org` },
		"a comment":                           func(m *delivery.Message) { m.To = "ada(x)@example.org" },
		"an address literal":                  func(m *delivery.Message) { m.To = "ada@[127.0.0.1]" },
		"a no-break space":                    func(m *delivery.Message) { m.To = "ada\u00a0x@example.org" },
		"a line separator":                    func(m *delivery.Message) { m.To = "ada\u2028x@example.org" },
		"bytes that are no UTF-8":             func(m *delivery.Message) { m.To = "ad\xffa@example.org" },
		"an underscore in the domain":         func(m *delivery.Message) { m.To = "ada@exa_mple.org" },
		"a local part of 65":                  func(m *delivery.Message) { m.To = long + "x@example.org" },
		"an address of 255":                   func(m *delivery.Message) { m.To = long + "@" + strings.Repeat("abcdefg.", 23) + "abcdef" },
		"no sender":                           func(m *delivery.Message) { m.From = "" },
		"two senders":                         func(m *delivery.Message) { m.From = "a@x.example, b@x.example" },
		"a header behind the sender":          func(m *delivery.Message) { m.From = "Codes <a@x.example>\r\nBcc: eve@example.org" },
		"a header in the sender's name":       func(m *delivery.Message) { m.From = "=?utf-8?q?Codes=0D=0ABcc:_eve?= <a@x.example>" },
		"a tab before the sender":             func(m *delivery.Message) { m.From = "\ta@x.example" },
		"a NUL in the sender's name, encoded": func(m *delivery.Message) { m.From = "=?utf-8?q?Co=00des?= <a@x.example>" },
		"a NUL in the sender's name":          func(m *delivery.Message) { m.From = "\"Co\x00des\" <a@x.example>" },
		"a line break in the subject":         func(m *delivery.Message) { m.Subject = "Your code\r\nBcc: eve@example.org" },
		"a bare LF in the subject":            func(m *delivery.Message) { m.Subject = "Your\ncode" },
		"a bare CR in the subject":            func(m *delivery.Message) { m.Subject = "Your\rcode" },
		"a NUL in the subject":                func(m *delivery.Message) { m.Subject = "Your\x00code" },
		"a tab in the subject":                func(m *delivery.Message) { m.Subject = "Your\tcode" },
		"a line separator in the subject":     func(m *delivery.Message) { m.Subject = "Your\u2028code" },
		"a C1 character in the subject":       func(m *delivery.Message) { m.Subject = "Your\u0085code" },
		"bytes that are no UTF-8, subject":    func(m *delivery.Message) { m.Subject = "Your \xff code" },
		"an encoded word in the subject":      func(m *delivery.Message) { m.Subject = "=?utf-8?q?x=0Ay?=" },
		"an endless subject":                  func(m *delivery.Message) { m.Subject = strings.Repeat("x", 1000) },
		"a line break in the language":        func(m *delivery.Message) { m.Language = "en\r\nX: y" },
		"a space in the language":             func(m *delivery.Message) { m.Language = "en us" },
		"no Message-ID":                       func(m *delivery.Message) { m.ID = "" },
		"a Message-ID in brackets":            func(m *delivery.Message) { m.ID = "<a@x.example>" },
		"a header behind the Message-ID":      func(m *delivery.Message) { m.ID = "a@x.example>\r\nX: y" },
		"a Message-ID beyond ASCII":           func(m *delivery.Message) { m.ID = "ü@x.example" },
		"no date":                             func(m *delivery.Message) { m.Date = time.Time{} },
		"no text":                             func(m *delivery.Message) { m.Text = "" },
	} {
		t.Run(name, func(t *testing.T) {
			server := smtptest.Start(t, smtptest.Script{})
			m := message(1)
			change(&m)
			_, err := sender(t, server).Send(t.Context(), m)
			expect(t, err, outcome{class: delivery.Rejected, stage: delivery.StageMessage})
			if server.Connections() != 0 {
				t.Error("it was dialled")
			}
		})
	}
}

// TestSendable: the longest and oddest that are still right.
func TestSendable(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	s := sender(t, server)
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
		m := message(n)
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
		server := smtptest.New(t, smtptest.Script{})
		s := piped(t, server)
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
