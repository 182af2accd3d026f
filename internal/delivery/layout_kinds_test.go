package delivery

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/parts"
)

// fillForm puts the fill in the place of "§".
type fillForm struct{ subject, text, html string }

func (f *fillForm) Texts(fill string) (subject, text, html string) {
	put := func(text string) string { return strings.ReplaceAll(text, "§", fill) }
	return put(f.subject), put(f.text), put(f.html)
}

var usual = fillForm{"Your code", "§\n", "<p>§</p>"}

func formed(f *fillForm, fill string) Message {
	m := Message{
		ID: "0199a1b2-c3d4-7e5f-8a6b-0123456789ab@codes.example", From: "Codes <no-reply@codes.example>", To: "ana@example.org",
		Language: "en", Date: time.Unix(1_700_000_000, 0), Form: f, Fill: fill, Marks: map[string]string{"X-Send": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab"},
	}
	m.Subject, m.Text, m.HTML = f.Texts(fill)
	return m
}

// sameMail has a mail rendered, and wants the bytes or the refusal of the mail that is built.
func sameMail(t *testing.T, l *Layouts, m Message) {
	t.Helper()
	got, fail := l.Render(m)
	built, want := render(m)
	switch {
	case fail != nil && want != nil && fail.Error() == want.Error():
	case fail != nil || want != nil:
		t.Errorf("rendered with %v, built with %v", fail, want)
	case got.From != built.From || got.To != built.To || got.UTF8 != built.UTF8 || string(got.Content) != string(built.Content):
		t.Errorf("the mail to %s is another:\n%s\nbuilt:\n%s", m.To, got.Content, built.Content)
	}
}

// Whatever is filled into a layout gives, to the byte, the mail that is built; the few that it might get wrong are built.
func TestLayoutsGiveTheSameMails(t *testing.T) {
	long := strings.Repeat("Words that are wrapped, for no line is that long. ", 4)
	fills := []string{"123456S-7K3M-Q2XP", "654321S-AAAA-0000", "ABCDEFGHIJ", "A-B-CDEFGH", "------", "1111111111S-1111-1111", "12=456"}
	recipients := []string{"ada@example.org", "A+b=c_!#$%&'*/?^`{|}~@X.example", "用户@例子.example",
		strings.Repeat("a", 60) + "@example.org", strings.Repeat("l", 48) + "@example.org"}
	marks := []map[string]string{nil, {"X-Send": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab"}, {"X-Send": "1"}}
	for _, form := range []*fillForm{
		{"Your code", "Code:\n\n§\n\n" + long, "<p>§</p>\n<p>" + long + "</p>"},
		{"§ is your code", "§", ""},
		{"您的验证码 §", "验证码 §\n.§\n§.\n", "<b>§</b>=§"},
		{strings.Repeat("long ", 30) + "§", strings.Repeat("x", 200) + "§" + strings.Repeat("é", 50), long + "§" + long},
	} {
		var l Layouts
		for _, fill := range fills {
			for _, to := range recipients {
				m := formed(form, fill)
				m.To = to
				for _, m.Marks = range marks {
					sameMail(t, &l, m)
					m.Date = m.Date.Add(31 * time.Hour)
					sameMail(t, &l, m)
				}
			}
		}
	}
}

func TestWhichMailsHaveALayout(t *testing.T) {
	for name, c := range map[string]struct {
		form   fillForm
		change func(*Message)
		want   bool
	}{
		"usual":                {usual, func(*Message) {}, true},
		"glance":               {fillForm{"§ is your code", "§\n", "<p>§</p>"}, func(*Message) {}, true},
		"dashes in encoded":    {fillForm{"验证码 §", "§\n", "<p>§</p>"}, func(*Message) {}, false},
		"long recipient":       {usual, func(m *Message) { m.To = strings.Repeat("a", 55) + "@example.org" }, false},
		"recipient in Unicode": {usual, func(m *Message) { m.To = "用户@example.org" }, false},
		"another mark":         {usual, func(m *Message) { m.Marks = map[string]string{"X-Send": "1"} }, false},
	} {
		var l Layouts
		m := formed(&c.form, "123456S-7K3M-Q2XP")
		c.change(&m)
		sameMail(t, &l, m)
		used := false
		for _, kept := range l.kept {
			used = kept != nil
		}
		if used != c.want {
			t.Errorf("%s: a layout is used: %v", name, used)
		}
	}
}

// What is kept is bounded, and holds neither recipient nor code.
func TestLayoutsAreBoundedAndHoldNoCode(t *testing.T) {
	var l Layouts
	for range 2*maxLayouts + 10 {
		form := usual
		sameMail(t, &l, formed(&form, "739154"))
	}
	if n := len(l.kept); n == 0 || n > maxLayouts {
		t.Errorf("%d layouts are kept", n)
	}
	for _, kept := range l.kept {
		for _, p := range kept.pieces {
			if strings.Contains(p.text, "739154") || strings.Contains(p.text, "ana@") {
				t.Fatalf("a layout holds %q", p.text)
			}
		}
	}
}

// To fill a mail in costs next to nothing.
func TestAllocationsOfALayout(t *testing.T) {
	parts.SkipUnderRace(t)
	var l Layouts
	m := formed(&usual, "739154")
	m.Marks = nil
	most := testing.AllocsPerRun(100, func() {
		r, fail := l.Render(m)
		if fail != nil {
			t.Fatal(fail)
		}
		l.Release(r)
	})
	if most > 3 {
		t.Errorf("%v allocations", most)
	}
}

// What cannot be sent is rejected, also where mails of its kind have a layout.
func TestUnsendable(t *testing.T) {
	long := strings.Repeat("x", 64)
	var l Layouts
	sameMail(t, &l, formed(&usual, "654321"))
	for name, change := range map[string]func(*Message){
		"no recipient":                        func(m *Message) { m.To = "" },
		"no local part":                       func(m *Message) { m.To = "@example.org" },
		"no domain":                           func(m *Message) { m.To = "ada@" },
		"an empty label":                      func(m *Message) { m.To = "ada@example..org" },
		"two dots":                            func(m *Message) { m.To = "ada..lovelace@example.org" },
		"a display name":                      func(m *Message) { m.To = "Ada <ada@example.org>" },
		"two recipients":                      func(m *Message) { m.To = "ada@example.org,eve@example.org" },
		"a second RCPT":                       func(m *Message) { m.To = "ada@example.org>\r\nRCPT TO:<eve@example.org" },
		"a parameter of RCPT":                 func(m *Message) { m.To = "ada@example.org> NOTIFY=SUCCESS" },
		"a quoted local part":                 func(m *Message) { m.To = `"ada lovelace"@example.org` },
		"an address literal":                  func(m *Message) { m.To = "ada@[127.0.0.1]" },
		"a no-break space":                    func(m *Message) { m.To = "ada\u00a0x@example.org" },
		"a line separator":                    func(m *Message) { m.To = "ada\u2028x@example.org" },
		"bytes that are no UTF-8":             func(m *Message) { m.To = "ad\xffa@example.org" },
		"a local part of 65":                  func(m *Message) { m.To = long + "x@example.org" },
		"an address of 255":                   func(m *Message) { m.To = long + "@" + strings.Repeat("abcdefg.", 23) + "abcdef" },
		"no sender":                           func(m *Message) { m.From = "" },
		"two senders":                         func(m *Message) { m.From = "a@x.example, b@x.example" },
		"a header behind the sender":          func(m *Message) { m.From = "Codes <a@x.example>\r\nBcc: eve@example.org" },
		"a header in the sender's name":       func(m *Message) { m.From = "=?utf-8?q?Codes=0D=0ABcc:_eve?= <a@x.example>" },
		"a NUL in the sender's name, encoded": func(m *Message) { m.From = "=?utf-8?q?Co=00des?= <a@x.example>" },
		"a line break in the subject":         func(m *Message) { m.Subject = "Your code\r\nBcc: eve@example.org" },
		"a bare LF in the subject":            func(m *Message) { m.Subject = "Your\ncode" },
		"a line separator in the subject":     func(m *Message) { m.Subject = "Your\u2028code" },
		"a C1 character in the subject":       func(m *Message) { m.Subject = "Your\u0085code" },
		"bytes that are no UTF-8, subject":    func(m *Message) { m.Subject = "Your \xff code" },
		"an encoded word in the subject":      func(m *Message) { m.Subject = "=?utf-8?q?x=0Ay?=" },
		"an endless subject":                  func(m *Message) { m.Subject = strings.Repeat("x", 1000) },
		"a line break in the language":        func(m *Message) { m.Language = "en\r\nX: y" },
		"no Message-ID":                       func(m *Message) { m.ID = "" },
		"a Message-ID in brackets":            func(m *Message) { m.ID = "<a@x.example>" },
		"a header in the Message-ID":          func(m *Message) { m.ID = "0199a1b2-c3d4-7e5f-8a6b-0000000\r\nX:1@codes.example" },
		"a header behind the Message-ID":      func(m *Message) { m.ID += "\r\nX: y" },
		"a Message-ID beyond ASCII":           func(m *Message) { m.ID = "ü@x.example" },
		"no date":                             func(m *Message) { m.Date = time.Time{} },
		"no text":                             func(m *Message) { m.Text = "" },
		"a mark that means something":         func(m *Message) { m.Marks = map[string]string{"Bcc": m.ID[:36]} },
		"a mark without a name":               func(m *Message) { m.Marks = map[string]string{"X-": ""} },
		"a header behind a mark":              func(m *Message) { m.Marks = map[string]string{"X-Send": "1\r\nBcc: b@example.com"} },
		"a header in the name of a mark":      func(m *Message) { m.Marks = map[string]string{"X-A\r\nBcc": "1"} },
		"a mark beyond ASCII":                 func(m *Message) { m.Marks = map[string]string{"X-B": "ä"} },
		"a mark with a space":                 func(m *Message) { m.Marks = map[string]string{"X-C": "a b"} },
		"an endless mark":                     func(m *Message) { m.Marks = map[string]string{"X-E": strings.Repeat("x", 81)} },
	} {
		m := formed(&usual, "654321")
		change(&m)
		m.Form = nil
		if r, fail := l.Render(m); r != nil || fail == nil || fail.Class != Rejected || fail.Stage != StageMessage {
			t.Errorf("%s: %v", name, fail)
		}
		if m.Form = &usual; m.Text != "" && m.Subject == "Your code" { // the texts are the form's
			sameMail(t, &l, m)
		}
	}
}
