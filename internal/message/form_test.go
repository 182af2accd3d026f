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

// A form that was filled in is, to the byte, what the templates give, whatever the code and the order of callers.
func TestFormsGiveTheSameMails(t *testing.T) {
	r := renderer(t)
	for _, locale := range r.Locales("") {
		for _, notify := range []Notify{Private, Glance} {
			for length := minCode; length <= maxCode; length++ {
				for range 4 {
					req := Request{Locale: locale, Notify: notify, Data: shop()}
					req.Data.Code, req.Data.Minutes = anyCode(length), 1+rand.IntN(2)
					req.Data.Support = "S-" + anyCode(4) + "-" + anyCode(4)
					if got, want := render(t, r, req), plainly(t, r, req); got != want {
						t.Fatalf("%s %s, %d characters: the mail from a form is another", locale, notify, length)
					}
				}
			}
		}
	}
	for key, m := range r.forms.all() {
		if m == nil {
			t.Errorf("no form for %+v", key.set)
		}
	}
	// One is for all codes and references of a kind, but for the longest codes, which leave no marks for a reference.
	if n, kinds := len(r.forms.all()), 2*2*len(r.Locales(""))*(maxCode-minCode+1); n < kinds/2 || n > kinds*11/10 {
		t.Errorf("%d forms of %d kinds", n, kinds)
	}
}

// Mails that differ in anything but the characters of code and reference have forms of their own.
func TestFormsAreNotMixedUp(t *testing.T) {
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
	if n := len(r.forms.all()); n != len(changes) {
		t.Errorf("%d forms, want %d", n, len(changes))
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
		for _, m := range r.forms.all() {
			if m != nil {
				t.Errorf("%s: a form was made", name)
			}
		}
	}
}

// What is kept is bounded, holds no code, and can be used by many at once.
func TestFormsAreBoundedAndHoldNoCode(t *testing.T) {
	r := renderer(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2 * maxForms / 3 {
				req := Request{Locale: "en", Data: shop()}
				req.Data.Code, req.Data.App = "907683", fmt.Sprintf("S-%d", i)
				if _, err := r.Render(req); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range maxForms {
		req := Request{Locale: "en", Data: shop()}
		req.Data.Code, req.Data.App = "907683", fmt.Sprintf("T-%d", i)
		render(t, r, req)
	}
	if n := len(r.forms.all()); n == 0 || n > maxForms {
		t.Errorf("%d forms are kept", n)
	}
	var text string
	for key, m := range r.forms.all() {
		text += fmt.Sprintf("%+v %+v", reflect.ValueOf(key), reflect.ValueOf(*m))
	}
	for _, part := range []string{"907683", "907", "683"} {
		if strings.Contains(text, part) {
			t.Errorf("what is kept holds %q of a code", part)
		}
	}
}

// all is a copy of what is kept.
func (c *cache[K, V]) all() map[K]V {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.kept)
}
