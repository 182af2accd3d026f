package page_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/http/server"
)

type box struct {
	mu    sync.Mutex
	mails []mailbox.Mail
}

func (b *box) Messages() []mailbox.Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]mailbox.Mail{}, b.mails...)
}

func (b *box) add(m mailbox.Mail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails = append([]mailbox.Mail{m}, b.mails...)
}

func first() mailbox.Mail {
	return mailbox.Mail{
		ID: "1@localhost", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), To: pagetest.Address,
		Subject: "Your <code> & you",
		Text:    "Your code is\n\n482913\n",
		HTML:    "<!doctype html><p style=\"color:red\">482913</p><script>parent.postMessage('out','*')</script>",
	}
}

func serveMailbox(w *pagetest.World, b *box) *echo.Echo {
	e := server.New(server.Config{Logger: w.Logger})
	page.RegisterStatic(e)
	page.RegisterMailbox(e, b, "the-key", "sk_key")
	return e
}

func TestTheMailboxShowsMailsAtOnce(t *testing.T) {
	b := &box{}
	e := serveMailbox(world(t), b)
	ask := func(target, host string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Host, r.RemoteAddr = host, "127.0.0.1:5000"
		r.Header.Set("Authorization", "Bearer sk_key")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		return w
	}
	is(t, strings.TrimSpace(ask("/mailbox/messages", "127.0.0.1:8080").Body.String()), "[]")
	b.add(first())
	b.add(mailbox.Mail{ID: "2@localhost", To: "ben@example.com", Subject: "Second", Text: "another"})
	page := ask("/mailbox", "localhost:8080").Body.String()
	contains(t, page, "482913", "Your &lt;code&gt; &amp; you", pagetest.Address,
		`<iframe sandbox title="The same mail as HTML"`, "another")
	if strings.Index(page, "Second") > strings.Index(page, "482913") {
		t.Error("the newest mail is not first")
	}
	list := ask("/mailbox/messages", "[::1]:8080").Body.String()
	contains(t, list, `[{"id":"2@localhost"`, `"subject":"Second"`, `"to":"`+pagetest.Address+`"`,
		`"text":"Your code is\n\n482913\n"`)
	html := ask("/mailbox/html?id=1@localhost", "127.0.0.1")
	if csp := html.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox;") ||
		!strings.Contains(csp, "default-src 'none'") {
		t.Errorf("a mail's policy is %q", csp)
	}
	for target, host := range map[string]string{
		"/mailbox": "evil.example:8080", "/mailbox/messages": "localhost.evil.example",
		"/mailbox/html?id=1@localhost": "10.0.0.1",
	} {
		if got := ask(target, host); got.Code != http.StatusForbidden || strings.Contains(got.Body.String(), "482913") {
			t.Errorf("%s at %s: %d", target, host, got.Code)
		}
	}
	is(t, ask("/mailbox/html?id=2@localhost", "localhost").Code, http.StatusNotFound) // it has no HTML
}

// The link sets a cookie and is redirected away; cookie and tokens open each route, nothing else does.
func TestRegisterMailboxNeedsItsKey(t *testing.T) {
	b := &box{}
	b.add(first())
	e := serveMailbox(world(t), b)
	ask := func(target, cookie, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:5000"
		r.Header.Set("Cookie", cookie)
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		return w
	}
	w := ask("/mailbox?k=the-key", "", "")
	is(t, w.Code, http.StatusSeeOther)
	is(t, w.Header().Get("Location"), "/mailbox")
	is(t, w.Header().Get("Referrer-Policy"), "no-referrer")
	is(t, w.Header().Get("Set-Cookie"), "sendcode_mailbox=the-key; Path=/mailbox; HttpOnly; SameSite=Lax")
	for _, path := range []string{"/mailbox", "/mailbox/messages", "/mailbox/html?id=1@localhost"} {
		for given, want := range map[[2]string]int{
			{}: 401, {"sendcode_mailbox="}: 401, {"sendcode_mailbox=sk_key"}: 401, {"sendcode_mailbox=the-key"}: 200,
			{"", "Bearer the-key"}: 200, {"", "Bearer sk_key"}: 200, {"", "Bearer "}: 401, {"", "Basic the-key"}: 401, {"", "Bearer sk_keys"}: 401,
		} {
			w := ask(path, given[0], given[1])
			if is(t, w.Code, want); strings.Contains(w.Body.String(), "482913") != (want == 200) {
				t.Errorf("%s with %q: %s", path, given, w.Body)
			}
		}
	}
	without := server.New(server.Config{Logger: world(t).Logger})
	page.RegisterMailbox(without, b, "the-key", "") // no API key is no way in
	e = without
	is(t, ask("/mailbox/messages", "", "Bearer ").Code, http.StatusUnauthorized)
}
