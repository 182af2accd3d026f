package message

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// plainly renders without anything that was kept.
func plainly(t *testing.T, r *Renderer, req Request) Message {
	t.Helper()
	fresh := &Renderer{locales: r.locales, matcher: r.matcher, sets: r.sets}
	return render(t, fresh, req)
}

func anyCode(length int) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcxyz"
	code := make([]byte, length)
	for i := range code {
		code[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return string(code)
}

// What is filled into a mold is, to the byte, what the templates would have given, whatever the code and the order of callers.
func TestMoldsGiveTheSameMails(t *testing.T) {
	r := renderer(t)
	for _, locale := range r.Locales("") {
		for _, notify := range []Notify{Private, Glance} {
			for length := minCode; length <= maxCode; length++ {
				for range 4 {
					req := Request{Locale: locale, Notify: notify, Data: shop()}
					req.Data.Code, req.Data.Minutes = anyCode(length), 1+rand.IntN(2)
					req.Data.Support = "S-" + anyCode(4) + "-" + anyCode(4)
					if got, want := render(t, r, req), plainly(t, r, req); got != want {
						t.Fatalf("%s %s, %d characters: the mail from a mold is another", locale, notify, length)
					}
				}
			}
		}
	}
	for key, m := range r.molds.all() {
		if m == nil {
			t.Errorf("no mold for %+v", key.set)
		}
	}
	if n := len(r.molds.all()); n < 20 {
		t.Errorf("%d molds: nothing was kept", n)
	}
}

// Two mails that differ in nothing but the characters of the code and the reference come from one mold.
func TestOneMoldForAllReferences(t *testing.T) {
	r := renderer(t)
	for range 20 {
		req := Request{Locale: "en", Data: shop()}
		req.Data.Code, req.Data.Support = anyCode(6), "S-"+anyCode(4)+"-"+anyCode(4)
		if got := render(t, r, req); got != plainly(t, r, req) || !strings.Contains(got.Text, req.Data.Support) ||
			!strings.Contains(got.HTML, req.Data.Support) {
			t.Errorf("the mail is another: %s", got.Text)
		}
	}
	if n := len(r.molds.all()); n != 1 {
		t.Errorf("%d molds", n)
	}
}

// Two mails that differ in anything but the code's characters come from two molds.
func TestMoldsAreNotMixedUp(t *testing.T) {
	r := renderer(t)
	base := Request{Locale: "en", Data: shop()}
	changes := map[string]func(*Request){
		"nothing": func(*Request) {}, "locale": func(q *Request) { q.Locale = "zh-CN" }, "notify": func(q *Request) { q.Notify = Glance },
		"app": func(q *Request) { q.Data.App = "Other" }, "minutes": func(q *Request) { q.Data.Minutes = 3 },
		"purpose": func(q *Request) { q.Data.Purpose = "pay" }, "support": func(q *Request) { q.Data.Support = "S-1" },
		"support as long":         func(q *Request) { q.Data.Support = "S-12345" },
		"support that is escaped": func(q *Request) { q.Data.Support = "S<12345" },
		"support that is long":    func(q *Request) { q.Data.Support = strings.Repeat("S", 21) },
		"length":                  func(q *Request) { q.Data.Code = "12345678" },
	}
	for range 3 {
		for name, change := range changes {
			req := base
			change(&req)
			if got, want := render(t, r, req), plainly(t, r, req); got != want {
				t.Errorf("%s: the mail is another", name)
			}
		}
	}
	if n := len(r.molds.all()); n != len(changes) {
		t.Errorf("%d molds, want %d", n, len(changes))
	}
}

// A template that puts the code where characters are escaped, or has marks of its own, is run for each mail.
func TestCodesThatCannotBeFilledIn(t *testing.T) {
	for name, html := range map[string]string{
		"in an address": `<a href="https://shop.example/?c={{.Code}}">open</a><p>{{.Code}}</p>`,
		"in a script":   `<p>{{.Code}}</p><script>var c = {{.Code}}</script>`,
		"its own marks": `<p>` + "\x02" + `</p><p>{{.Code}}</p>`,
	} {
		words := strings.Repeat("<p>These words keep the code back from the preview of a mail.</p>", 3)
		r := renderer(t, fstest.MapFS{"mail/default/en/html.html": {Data: []byte(words + html)}})
		for range 10 {
			req := Request{Locale: "en", Data: shop()}
			req.Data.Code = anyCode(6)
			if got, want := render(t, r, req), plainly(t, r, req); got != want || !strings.Contains(got.HTML, req.Data.Code) {
				t.Fatalf("%s: the mail is another", name)
			}
		}
		for _, m := range r.molds.all() {
			if m != nil {
				t.Errorf("%s: a mold was made", name)
			}
		}
	}
}

// What is kept is bounded, holds no code, and can be used by many at once.
func TestMoldsAreBoundedAndHoldNoCode(t *testing.T) {
	r := renderer(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2 * maxMolds / 3 {
				req := Request{Locale: "en", Data: shop()}
				req.Data.Code, req.Data.App = "907683", fmt.Sprintf("S-%d", i)
				if _, err := r.Render(req); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range maxMolds {
		req := Request{Locale: "en", Data: shop()}
		req.Data.Code, req.Data.App = "907683", fmt.Sprintf("T-%d", i)
		render(t, r, req)
	}
	if n := len(r.molds.all()); n == 0 || n > maxMolds {
		t.Errorf("%d molds are kept", n)
	}
	var text string
	for key, m := range r.molds.all() {
		text += fmt.Sprintf("%+v %+v", reflect.ValueOf(key), reflect.ValueOf(*m))
	}
	for _, part := range []string{"907683", "907", "683"} {
		if strings.Contains(text, part) {
			t.Errorf("what is kept holds %q of a code", part)
		}
	}
}

// all is a copy of what is kept.
func (m *molds) all() map[moldKey]*Form {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.kept)
}

// Filling a mold copies each text once.
func TestFillingCopiesOnce(t *testing.T) {
	const filled = "12"
	marked := strings.NewReplacer("1", marks[:1], "2", marks[1:2])
	real := Message{Subject: "1", Text: "code 12.", HTML: "<b>12</b>"}
	f := newForm(Message{Subject: marked.Replace(real.Subject), Text: marked.Replace(real.Text), HTML: marked.Replace(real.HTML)}, real, filled)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = f.Texts(filled) }); n > 3 {
		t.Errorf("%v allocations for three texts", n)
	}
}
