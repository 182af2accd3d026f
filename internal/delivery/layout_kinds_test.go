package delivery

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sendcode/internal/servertest"
)

// fillForm puts the fill in the place of "§".
type fillForm struct{ subject, text, html string }

func (f *fillForm) Texts(fill string) (subject, text, html string, err error) {
	put := func(text string) string { return strings.ReplaceAll(text, "§", fill) }
	return put(f.subject), put(f.text), put(f.html), nil
}

var usual = fillForm{"Your code", "§\n", "<p>§</p>"}

func formed(f *fillForm, fill string) Message {
	return Message{
		ID: "0199a1b2-c3d4-7e5f-8a6b-0123456789ab@codes.example", From: "Codes <no-reply@codes.example>", To: "ana@example.org",
		Language: "en", Date: time.Unix(1_700_000_000, 0), Form: f, Fill: fill, Marks: map[string]string{"X-Send": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab"},
	}
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
		if text := string(kept.content); strings.Contains(text, "739154") || strings.Contains(text, "ana@") {
			t.Fatalf("a layout holds %q", text)
		}
	}
}

// To fill a mail in costs next to nothing.
func TestAllocationsOfALayout(t *testing.T) {
	servertest.SkipUnderRace(t)
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
	refused := func(what string, change func(*Message)) {
		m, _ := formed(&usual, "654321").WithTexts()
		change(&m)
		m.Form = nil
		if r, fail := l.Render(m); r != nil || fail == nil || fail.Class != Rejected || fail.Stage != StageMessage {
			t.Errorf("%s: %v", what, fail)
		}
		if m.Form = &usual; m.Text != "" && m.Subject == "Your code" { // the texts are the form's
			sameMail(t, &l, m)
		}
	}
	for field, values := range map[string][]string{
		"To": {
			"", "@example.org", "ada@", "ada@example..org", "ada..lovelace@example.org", "Ada <ada@example.org>", "ada@example.org,eve@example.org",
			"ada@example.org>\r\nRCPT TO:<eve@example.org", "ada@example.org> NOTIFY=SUCCESS", `"ada lovelace"@example.org`, "ada@[127.0.0.1]",
			"ada\u00a0x@example.org", "ada\u2028x@example.org", "ad\xffa@example.org", long + "x@example.org",
			long + "@" + strings.Repeat("abcdefg.", 23) + "abcdef",
		},
		"From": {
			"", "a@x.example, b@x.example", "Codes <a@x.example>\r\nBcc: eve@example.org", "=?utf-8?q?Codes=0D=0ABcc:_eve?= <a@x.example>",
			"=?utf-8?q?Co=00des?= <a@x.example>",
		},
		"Subject": {
			"Your code\r\nBcc: eve@example.org", "Your\ncode", "Your\u2028code", "Your\u0085code", "Your \xff code", "=?utf-8?q?x=0Ay?=",
			strings.Repeat("x", 1000),
		},
		"Language": {"en\r\nX: y"}, "Text": {""},
		"ID": {
			"", "<a@x.example>", "0199a1b2-c3d4-7e5f-8a6b-0000000\r\nX:1@codes.example",
			"0199a1b2-c3d4-7e5f-8a6b-0123456789ab@codes.example\r\nX: y", "ü@x.example",
		},
	} {
		for _, value := range values {
			refused(field+" "+value, func(m *Message) { reflect.ValueOf(m).Elem().FieldByName(field).SetString(value) })
		}
	}
	refused("no date", func(m *Message) { m.Date = time.Time{} })
	for name, value := range map[string]string{
		"Bcc": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab", "X-": "", "X-Send": "1\r\nBcc: b@example.com", "X-A\r\nBcc": "1", "X-B": "ä", "X-C": "a b",
		"X-E": strings.Repeat("x", 81),
	} {
		refused("a mark "+name, func(m *Message) { m.Marks = map[string]string{name: value} })
	}
}
