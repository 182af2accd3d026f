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

func formed(f *fillForm, fill string) Message {
	m := Message{
		ID: "0199a1b2-c3d4-7e5f-8a6b-0123456789ab@codes.example", From: "Codes <no-reply@codes.example>", To: "ana@example.org",
		Language: "en", Date: time.Unix(1_700_000_000, 0), Form: f, Fill: fill, Marks: map[string]string{"X-Send": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab"},
	}
	m.Subject, m.Text, m.HTML = f.Texts(fill)
	return m
}

// Mails of a usual kind are filled in; the few that a layout might get wrong are built.
func TestWhichMailsHaveALayout(t *testing.T) {
	const fill = "123456S-7K3M-Q2XP"
	for name, c := range map[string]struct {
		form   fillForm
		change func(*Message)
		want   bool
	}{
		"usual":                {fillForm{"Your code", "§\n", "<p>§</p>"}, func(*Message) {}, true},
		"glance":               {fillForm{"§ is your code", "§\n", "<p>§</p>"}, func(*Message) {}, true},
		"without HTML":         {fillForm{"Your code", "§\n", ""}, func(*Message) {}, true},
		"dashes in encoded":    {fillForm{"验证码 §", "§\n", "<p>§</p>"}, func(*Message) {}, false},
		"long recipient":       {fillForm{"Your code", "§\n", "<p>§</p>"}, func(m *Message) { m.To = strings.Repeat("a", 55) + "@example.org" }, false},
		"recipient in Unicode": {fillForm{"Your code", "§\n", "<p>§</p>"}, func(m *Message) { m.To = "用户@example.org" }, false},
		"another mark":         {fillForm{"Your code", "§\n", "<p>§</p>"}, func(m *Message) { m.Marks = map[string]string{"X-Send": "1"} }, false},
		"a fill that is encoded": {fillForm{"Your code", "§\n", "<p>§</p>"}, func(m *Message) {
			m.Fill = "12=456S-7K3M-Q2XP"
			m.Subject, m.Text, m.HTML = m.Form.Texts(m.Fill)
		}, false},
	} {
		var l Layouts
		m := formed(&c.form, fill)
		c.change(&m)
		for range 2 {
			r, fail := l.Render(m)
			if fail != nil {
				t.Fatalf("%s: %v", name, fail)
			}
			if built, _ := render(m); string(r.Content) != string(built.Content) {
				t.Errorf("%s: the mail is another", name)
			}
		}
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
		if _, fail := l.Render(formed(&fillForm{"Your code", "§\n", "<p>§</p>"}, "739154")); fail != nil {
			t.Fatal(fail)
		}
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
	m := formed(&fillForm{"Your code", "§\n", "<p>§</p>"}, "739154")
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

// Fills of one length with dashes in other places are of another kind: an encoded subject has three characters for a dash.
func TestDashesMakeAnotherKind(t *testing.T) {
	var l Layouts
	form := &fillForm{"验证码 §", "§\n", "<p>§</p>"}
	for _, fill := range []string{"ABCDEF", "A-B-CD", "ABC-DE", "ABCDEF"} {
		for range 2 {
			r, fail := l.Render(formed(form, fill))
			if fail != nil {
				t.Fatal(fail)
			}
			if built, _ := render(formed(form, fill)); string(r.Content) != string(built.Content) {
				t.Errorf("%s: the mail is another", fill)
			}
		}
	}
}
