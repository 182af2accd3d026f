package smtp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
)

// letterForm is a form whose texts have the characters of a fill in the places of "§".
type letterForm struct{ subject, text, html string }

func (f *letterForm) Texts(fill string) (subject, text, html string) {
	put := func(text string) string { return strings.ReplaceAll(text, "§", fill) }
	return put(f.subject), put(f.text), put(f.html)
}

// ofForm is a mail of the form with a send's own parts, and the same mail without it.
func ofForm(f *letterForm, n int, fill string) (with, without delivery.Message) {
	m := message(n)
	m.ID = fmt.Sprintf("0199a1b2-c3d4-7e5f-8a6b-%012d@codes.example", n)
	m.Date = m.Date.Add(time.Duration(n) * 31 * time.Hour)
	m.Subject, m.Text, m.HTML = f.Texts(fill)
	without = m
	m.Form, m.Fill = f, fill
	return m, without
}

// Whatever is filled into a layout gives, to the byte, the mail that is built.
func TestLayoutsGiveTheSameMails(t *testing.T) {
	long := strings.Repeat("Words that are wrapped, for no line is that long. ", 4)
	forms := []*letterForm{
		{"Your code", "Code:\n\n§\n\n" + long, "<p>§</p>\n<p>" + long + "</p>"},
		{"§ is your code", "§", ""},
		{"您的验证码 §", "验证码 §\n.§\n§.\n", "<b>§</b>=§"},
		{strings.Repeat("long ", 30) + "§", strings.Repeat("x", 200) + "§" + strings.Repeat("é", 50), long + "§" + long},
	}
	recipients := []string{
		recipient, "a@b.example", "A+b=c_!#$%&'*/?^`{|}~@X.example", strings.Repeat("a", 60) + "@example.org", "ada@bücher.example",
		"用户@例子.example",
		strings.Repeat("l", 48) + "@example.org",
	}
	marks := []map[string]bool{nil, {"X-Send": true}, {"X-Send": true, "X-Other": true}}
	server := smtptest.Start(t, smtptest.Script{Extensions: pipelining})
	s := sender(t, server)
	n := 0
	for _, form := range forms {
		for _, fill := range []string{"123456S-7K3M-Q2XP", "654321S-AAAA-0000", "ABCDEFGHIJ", "------", "1111111111S-1111-1111"} {
			for _, to := range recipients {
				n++
				with, without := ofForm(form, n, fill)
				with.Marks, without.Marks = map[string]string{}, map[string]string{}
				for name := range marks[n%len(marks)] {
					with.Marks[name], without.Marks[name] = with.ID[:36], with.ID[:36]
				}
				with.To, without.To = to, to
				sameOnTheWire(t, server, s, with, without)
			}
		}
	}
}

func sameOnTheWire(t *testing.T, server *smtptest.Server, s *smtp.Client, with, without delivery.Message) {
	t.Helper()
	before := len(server.Messages())
	_, err := s.Send(t.Context(), with)
	_, want := s.Send(t.Context(), without)
	if fmt.Sprint(err) != fmt.Sprint(want) {
		t.Fatalf("sent with %v, without a form %v", err, want)
	}
	if got := server.Messages()[before:]; err == nil &&
		(len(got) != 2 || !bytes.Equal(got[0].Data, got[1].Data) || got[0].To[0] != got[1].To[0] || got[0].From != got[1].From) {
		t.Fatalf("the mail to %s is another:\n%s\nwithout a form:\n%s", with.To, got[0].Data, got[1].Data)
	}
}

// What is wrong with a mail is found where its kind has a layout, too.
func TestLayoutsRefuseWhatIsRefused(t *testing.T) {
	form := &letterForm{"Your code", "§\n", "<p>§</p>"}
	server := smtptest.Start(t, smtptest.Script{Extensions: pipelining})
	s := sender(t, server)
	for n := range 3 {
		with, without := ofForm(form, n, "123456")
		sameOnTheWire(t, server, s, with, without)
	}
	for name, change := range map[string]func(*delivery.Message){
		"recipient":       func(m *delivery.Message) { m.To = "a@b.example>\r\nRCPT TO:<c@d.example" },
		"no recipient":    func(m *delivery.Message) { m.To = "" },
		"list":            func(m *delivery.Message) { m.To = "a@b.example,c@d.example" },
		"ID":              func(m *delivery.Message) { m.ID = "0199a1b2-c3d4-7e5f-8a6b-0000000\r\nX:1@codes.example" },
		"domain":          func(m *delivery.Message) { m.ID = m.ID + "\r\nX-Evil: 1" },
		"date":            func(m *delivery.Message) { m.Date = time.Time{} },
		"language":        func(m *delivery.Message) { m.Language = "en\r\nX-Evil: 1" },
		"mark":            func(m *delivery.Message) { m.Marks = map[string]string{"X-Send": "1\r\nX-Evil: 1"} },
		"name of a mark":  func(m *delivery.Message) { m.Marks = map[string]string{"Bcc": m.ID[:36]} },
		"sender":          func(m *delivery.Message) { m.From = "a@b.example\r\nX-Evil: 1" },
		"a longer fill":   func(m *delivery.Message) { m.Fill, m.Text = "1234567", "1234567\n" },
		"a fill of lines": func(m *delivery.Message) { m.Fill = "12\r\n56"; m.Text = "12\r\n56\n" },
	} {
		with, without := ofForm(form, 9, "654321")
		change(&with)
		change(&without)
		t.Run(name, func(t *testing.T) {
			if name != "a longer fill" {
				sameOnTheWire(t, server, s, with, without)
				return
			}
			with.Subject, with.Text, with.HTML = form.Texts(with.Fill)
			without.Subject, without.Text, without.HTML = form.Texts(with.Fill)
			sameOnTheWire(t, server, s, with, without)
		})
	}
}

// Mails that are sent at once have each their own recipient, code and ID.
func TestLayoutsAreNotMixedUp(t *testing.T) {
	form := &letterForm{"Your code", "Code: §\n", "<p>§</p>"}
	server := smtptest.Start(t, smtptest.Script{Extensions: pipelining})
	s := sender(t, server)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 25 {
				fill := fmt.Sprintf("%06d", rand.IntN(1_000_000))
				m, _ := ofForm(form, 100*worker+n, fill)
				m.To = fmt.Sprintf("code-%s@example.com", fill)
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
