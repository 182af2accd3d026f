package page_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/store"
)

// raw asks without following redirects.
func raw(t *testing.T, w *pagetest.World, method, query string, form url.Values,
	edit func(*http.Request),
) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, w.URL+query, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range w.Cookies() {
		r.AddCookie(c)
	}
	if edit != nil {
		edit(r)
	}
	answer, err := w.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func formOf(t *testing.T, w *pagetest.World, query, act string, fields ...string) url.Values {
	t.Helper()
	form, err := w.Form(query, act)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

func TestPostsOfOtherSitesAreRefused(t *testing.T) {
	w := world(t)
	form := formOf(t, w, "", "send", "to", pagetest.Address)
	for name, edit := range map[string]func(*http.Request){
		"another site":        func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a neighbouring host": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"another origin":      func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"an opaque origin":    func(r *http.Request) { r.Header.Set("Origin", "null") },
		"nothing":             func(*http.Request) {},
	} {
		if answer := raw(t, w, http.MethodPost, "", form, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			edit(r)
		}); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d", name, answer.StatusCode)
		}
	}
	is(t, w.Codes.Sends(), 0)
	is(t, raw(t, w, http.MethodPost, "", form, func(r *http.Request) { // as browsers did before 2023
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", strings.TrimSuffix(w.URL, "/"))
	}).StatusCode, http.StatusSeeOther)
}

func TestEveryAnswerIsFencedIn(t *testing.T) {
	h := raw(t, world(t), http.MethodGet, "", nil, nil).Header
	contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"form-action 'self'", "base-uri 'none'", "object-src 'none'", "frame-ancestors 'none'")
	silent(t, h.Get("Content-Security-Policy"), "unsafe")
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin",
		"Strict-Transport-Security":  "max-age=31536000", "Vary": "Accept-Language, Cookie, X-Fragment",
	} {
		contains(t, strings.Join(h.Values(name), ", "), want)
	}
}

func TestLookingChangesNothing(t *testing.T) {
	w := mailed(t)
	for _, query := range []string{
		"", "?view=change", "?view=code", "?view=new", "?act=again",
		"?act=check&code=" + pagetest.Code,
	} {
		if answer := raw(t, w, http.MethodGet, query, nil, nil); len(answer.Cookies()) != 0 {
			t.Errorf("%q sets a cookie", query)
		}
	}
	is(t, w.Codes.Sends(), 1)
	is(t, w.Codes.Checks(), 0)
	shows(t, get(t, w, ""), "code", "Check your mail")
}

func TestBadPostsGetAFourHundred(t *testing.T) {
	w := world(t)
	for name, c := range map[string]struct {
		form url.Values
		edit func(*http.Request)
		want int
	}{
		"unknown act": {url.Values{"act": {"launch"}}, nil, http.StatusBadRequest},
		"no act":      {url.Values{"to": {pagetest.Address}}, nil, http.StatusBadRequest},
		"too large":   {url.Values{"act": {"send"}, "to": {strings.Repeat("a", 20_000)}}, nil, http.StatusRequestEntityTooLarge},
		"not a form": {
			url.Values{"act": {"send"}},
			func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, http.StatusBadRequest,
		},
		"in the query": {nil, func(r *http.Request) { r.URL.RawQuery = "act=send&to=ana@example.com" }, http.StatusBadRequest},
	} {
		if answer := raw(t, w, http.MethodPost, "", c.form, c.edit); answer.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", name, answer.StatusCode, c.want)
		}
	}
	is(t, len(w.Codes.Asks()), 0)
}

// What is typed reaches no log, and text that can be no code costs no try. FuzzPage shows that it
// is no markup.
func TestWhatIsTypedStaysInTheForm(t *testing.T) {
	w := mailed(t)
	for _, typed := range []string{
		"ana@example.com\r\nBcc: x@y.example", "😀@example.com", "ana@example.com\x00",
		"\xff\xfe@example.com", "{{.T}}@example.com",
	} {
		if page := post(t, w, "?view=new", "send", "to", typed); kind(page) != "ask" && kind(page) != "code" {
			t.Errorf("%q: %s", typed, kind(page))
		}
	}
	post(t, w, "?view=new", "send", "to", "ben@example.com")
	for _, typed := range []string{"<b>1</b>", strings.Repeat("1", 5000), "😀", "\x00", "482913 or 482914"} {
		page := post(t, w, "", "check", "code", typed)
		shows(t, page, "code")
		silent(t, page, typed)
	}
	is(t, w.Codes.Checks(), 0)
	silent(t, w.Log.String(), "ana@", "example.com", pagetest.Code, "Bcc")
}

func TestTheCookieIsSealedAndBound(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	for _, https := range []bool{false, true} {
		answer := raw(t, w, http.MethodPost, "", formOf(t, w, "?view=new", "send", "to", pagetest.Address),
			func(r *http.Request) {
				if https {
					r.Header.Set("X-Forwarded-Proto", "https")
				}
			})
		if len(answer.Cookies()) != 1 {
			t.Fatalf("%d cookies", len(answer.Cookies()))
		}
		c := answer.Cookies()[0]
		is(t, strings.Replace(c.Raw, c.Value, "", 1), map[bool]string{
			false: "sendcode=; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax",
			true:  "__Host-sendcode=; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax",
		}[https])
		sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		// "ana" alone is in one of some hundred cookies by chance.
		silent(t, c.Value+" "+string(sealed), "ana@", "example", "verification-", pagetest.Code)
	}
}

func TestATamperedOldOrForeignCookieIsNone(t *testing.T) {
	w, other := mailed(t), mailed(t)
	good := w.Cookies()[0]
	shows(t, get(t, w, ""), "code")
	flipped := []byte(good.Value)
	flipped[len(flipped)/2] ^= 1
	for name, value := range map[string]string{
		"tampered": string(flipped), "cut": good.Value[:20], "foreign": other.Cookies()[0].Value, "not sealed": "e30",
		"not base64": "***", "empty": "",
	} {
		w.Keep([]*http.Cookie{{Name: good.Name, Value: value}})
		if page := get(t, w, ""); kind(page) != "ask" {
			t.Errorf("%s: %s", name, text(page))
		}
		w.Keep([]*http.Cookie{good})
		shows(t, get(t, w, ""), "code")
	}
	w.Advance(time.Hour)
	shows(t, get(t, w, ""), "ask") // also when a browser keeps it longer than it was told to
}

// A browser drops a cookie of more than 4096 bytes (RFC 6265 section 6.1), and the state with it.
func TestTheCookieFitsWhateverIsTyped(t *testing.T) {
	w := world(t)
	for _, n := range []int{200, 320, 321, 4000} {
		answer := raw(t, w, http.MethodPost, "", formOf(t, w, "?view=new", "send", "to", strings.Repeat("é", n/2)), nil)
		if size := len(answer.Header.Get("Set-Cookie")); size == 0 || size > 4096 {
			t.Errorf("%d bytes typed: a cookie of %d", n, size)
		}
	}
}

// A right code makes the browser a known one: a cookie as safe as the session's has at most five
// tokens, the newest first, and each request for a code presents them. Any browser can forget them,
// without scripts too.
func TestAKnownBrowser(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	var tokens []string
	for n := range 7 {
		w.Advance(24 * time.Hour)
		post(t, w, "?view=new", "send", "to", pagetest.Address)
		if asks := w.Codes.Asks(); !slices.Equal(asks[len(asks)-1].KnownTokens, tokens) {
			t.Errorf("presented %v, want %v", asks[len(asks)-1].KnownTokens, tokens)
		}
		answer := raw(t, w, http.MethodPost, "", formOf(t, w, "", "check", "code", pagetest.Code), nil)
		for _, c := range answer.Cookies() {
			if c.Name == "known_sendcode" {
				is(t, strings.Replace(c.Raw, c.Value, "", 1), "known_sendcode=; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax")
			}
		}
		w.Keep(append(w.Cookies(), answer.Cookies()...))
		tokens = append([]string{fmt.Sprint("token-", n+1)}, tokens[:min(4, len(tokens))]...)
	}
	shows(t, get(t, w, "?view=new"), "ask", "Forget this device")
	shows(t, post(t, w, "?view=new", "forget"), "ask")
	silent(t, get(t, w, ""), "Forget this device", pagetest.Address)
	post(t, w, "?view=new", "send", "to", pagetest.Address)
	if asks := w.Codes.Asks(); len(asks[len(asks)-1].KnownTokens) > 0 {
		t.Errorf("presented %v after it was forgotten", asks[len(asks)-1].KnownTokens)
	}
}
