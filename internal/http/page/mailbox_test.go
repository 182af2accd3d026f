package page_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/http/server"
)

// box is a mailbox that receives no more mails.
type box []mailbox.Mail

func (b box) Messages() []mailbox.Mail { return b }

func first() mailbox.Mail {
	return mailbox.Mail{
		ID: "1@localhost", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), To: pagetest.Address,
		Subject: "Your <code> & you",
		Text:    "Your code is\n\n482913\n",
		HTML:    "<!doctype html><p style=\"color:red\">482913</p><script>parent.postMessage('out','*')</script>",
	}
}

// serveMailbox serves the mailbox with these mails. Two tokens give access: the-key and apiKey.
func serveMailbox(w *pagetest.World, apiKey string, mails ...mailbox.Mail) *echo.Echo {
	e := server.New(server.Config{Logger: w.Logger})
	page.RegisterStatic(e)
	page.RegisterMailbox(e, append(box{}, mails...), "the-key", apiKey, true)
	return e
}

// askMailbox makes a request to the mailbox from a program on this machine.
func askMailbox(e *echo.Echo, host, target, cookie, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host, r.RemoteAddr = host, "127.0.0.1:5000"
	r.Header.Set("Cookie", cookie)
	r.Header.Set("Authorization", token)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

func TestTheMailboxShowsMailsAtOnce(t *testing.T) {
	second := mailbox.Mail{ID: "2@localhost", To: "ben@example.com", Subject: "Second", Text: "another"}
	e := serveMailbox(world(t), "sk_key", second, first())
	ask := func(target string) *httptest.ResponseRecorder {
		return askMailbox(e, "localhost:8080", target, "", "Bearer sk_key")
	}
	page := ask("/mailbox").Body.String()
	contains(t, page, "482913", "Your &lt;code&gt; &amp; you", pagetest.Address,
		`<iframe sandbox title="The same mail as HTML"`, "another")
	contains(t, ask("/mailbox/messages").Body.String(), `[{"id":"2@localhost"`, `"subject":"Second"`,
		`"to":"`+pagetest.Address+`"`, `"text":"Your code is\n\n482913\n"`)
	html := ask("/mailbox/html?id=1@localhost")
	if csp := html.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox;") ||
		!strings.Contains(csp, "default-src 'none'") {
		t.Errorf("a mail's policy is %q", csp)
	}
	is(t, ask("/mailbox/html?id=2@localhost").Code, http.StatusNotFound) // this mail has no HTML
}

// An empty mailbox shows a command that requests a code. The command contains the API key only if
// the key was generated.
func TestEmptyMailboxShowsTheCommand(t *testing.T) {
	w := world(t)
	shown := askMailbox(serveMailbox(w, "sk_key"), "localhost:8080", "/mailbox", "", "Bearer sk_key").Body.String()
	contains(t, shown, "No mail yet", "curl -i &#39;http://localhost:8080/v1/verifications&#39;", "Bearer sk_key")
	e := server.New(server.Config{Logger: w.Logger})
	page.RegisterMailbox(e, box{}, "the-key", "sk_key", false)
	if body := askMailbox(e, "localhost:8080", "/mailbox", "", "Bearer sk_key").Body.String(); strings.Contains(body, "sk_key") {
		t.Errorf("the operator's key is shown: %s", body)
	}
}

// A request to the link gets a cookie and a redirect. The cookie and the tokens open each route.
// Nothing else does, and no route opens under the name of another host.
func TestRegisterMailboxNeedsItsKey(t *testing.T) {
	const here = "127.0.0.1:8080"
	e := serveMailbox(world(t), "sk_key", first())
	w := askMailbox(e, here, "/mailbox?k=the-key", "", "")
	is(t, w.Code, http.StatusSeeOther)
	is(t, w.Header().Get("Location"), "/mailbox")
	is(t, w.Header().Get("Referrer-Policy"), "same-origin")
	is(t, w.Header().Get("Set-Cookie"), "sendcode_mailbox=the-key; Path=/mailbox; HttpOnly; SameSite=Lax")
	for _, path := range []string{"/mailbox", "/mailbox/messages", "/mailbox/html?id=1@localhost"} {
		for given, want := range map[[2]string]int{
			{}: 401, {"sendcode_mailbox="}: 401, {"sendcode_mailbox=sk_key"}: 401, {"sendcode_mailbox=the-key"}: 200,
			{"", "Bearer the-key"}: 200, {"", "Bearer sk_key"}: 200, {"", "Bearer "}: 401, {"", "Basic the-key"}: 401,
			{"", "Bearer sk_keys"}: 401,
		} {
			w := askMailbox(e, here, path, given[0], given[1])
			if is(t, w.Code, want); strings.Contains(w.Body.String(), "482913") != (want == 200) {
				t.Errorf("%s with %q: %s", path, given, w.Body)
			}
		}
		is(t, askMailbox(e, "evil.example:8080", path, "", "Bearer sk_key").Code, http.StatusForbidden)
	}
	e = serveMailbox(world(t), "") // without an API key, an empty token must not open the mailbox
	is(t, askMailbox(e, here, "/mailbox/messages", "", "Bearer ").Code, http.StatusUnauthorized)
}
