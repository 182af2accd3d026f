package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

const wasKept = "Your session had ended before this was sent"

// drawnToken is the token of the forms of a page.
func drawnToken(b *consoletest.Browser, page string) string {
	b.Helper()
	return consoletest.Between(b.T, want(b.T, b.Get(page), http.StatusOK).Body.String(), `name="token" value="`, `"`)
}

// logInTo logs in from the login page with this way back, and reads that page.
func logInTo(b *consoletest.Browser, page string) string {
	b.Helper()
	redirects(b.T, b.Post("/admin/login", url.Values{"password": {consoletest.Password}, "next": {page}}), page)
	return want(b.T, b.Get(page), http.StatusOK).Body.String()
}

// drawnForm is a form of a page: what a browser sends, and what its page shows of that when it is drawn again.
type drawnForm struct {
	page   string
	fields url.Values
	shows  []string
}

// forms are all forms that are kept, by the path that they are sent to; one that ends with a question mark is another of the same path.
// The lists have rows with forms.
func (r *rig) forms() map[string]drawnForm {
	r.Helper()
	sent := explain.SendPageAddress(r.sent("ana@example.com").ID)
	address := r.suppress("bo@example.com", "asked").String()
	pause := r.pausedPrefix("+49151").ID.String()
	r.PutAccount(store.Account{Name: "mei", Role: "reader", Password: "x"})
	return map[string]drawnForm{
		"/admin/suppressions": {
			"/admin/suppressions",
			url.Values{"channel": {"sms"}, "to": {"+4915112345678"}, "app": {"shop"}, "days": {"7"}},
			[]string{`<option value="sms" selected>`, `name="app" value="shop"`, `value="7"`},
		},
		// the second row of a list that a filter selects
		"/admin/suppressions/lift?state=all": {
			"/admin/suppressions?state=all",
			url.Values{"channel": {"email"}, "address": {address}, "app": {""}},
			[]string{"<details open>"},
		},
		"/admin/prefixes/lift":     {"/admin/prefixes", url.Values{"id": {pause}}, []string{"<details open>"}},
		"/admin/acts/subscription": {"/admin/acts", url.Values{"provider": {"ses"}}, []string{"<details open>", "<option selected>ses"}},
		"/admin/accounts": {
			"/admin/accounts",
			url.Values{"do": {"add"}, "name": {"bea"}, "role": {"operator"}},
			[]string{`name="name" value="bea"`, `<option value="operator" selected>`},
		},
		"/admin/accounts?": {"/admin/accounts", url.Values{"do": {"role"}, "name": {"mei"}, "role": {"owner"}}, []string{
			"<details open>",
			`<select id="role-mei" name="role"><option value="reader">reader</option><option value="operator">operator</option><option value="owner" selected>`,
		}},
		sent + "/erase": {sent + "?do=erase", url.Values{"sure": {"yes"}}, []string{sent + "/erase"}},
		"/admin/search": {"/admin", url.Values{"q": {"bo@example.com"}}, []string{`value="bo@example.com"`}},
		"/admin/preview": {
			"/admin/preview",
			url.Values{"app": {"shop"}, "purpose": {"login"}, "to": {"cy@example.com"}, "locale": {"es"}},
			[]string{`name="to" value="cy@example.com"`, "<option selected>es"},
		},
		"/admin/webhooks": {"/admin/webhooks", url.Values{"app": {"shop"}, "event": {"send.bounced"}}, []string{"<option selected>send.bounced"}},
	}
}

// needsNoReason are the paths of forms without a field for a reason.
var needsNoReason = []string{"/admin/search", "/admin/preview", "/admin/webhooks"}

// Each form comes back filled on its page after the login, once; nothing is done until it is sent again, and that is as ever.
func TestSavedForm(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Webhooks = &sampler{} })
	b := r.LoggedIn()
	for path, form := range r.forms() {
		switch {
		case path == "/admin/suppressions":
			form.shows = append(form.shows, `name="to" value="&#43;4915112345678"`)
		case strings.HasSuffix(path, "/erase"):
			form.shows = append(form.shows, `<input type="checkbox" name="sure" value="yes" required>`)
		}
		if !slices.Contains(needsNoReason, path) {
			form.shows = append(form.shows, `value="ticket 7"`)
		}
		form.fields.Set("reason", "ticket 7")
		form.fields.Set("token", drawnToken(b, form.page))
		want(t, b.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
		before := r.Did()
		redirects(t, b.Post(path, form.fields), strings.TrimSuffix("/admin/login?next="+url.QueryEscape(form.page), "?next=%2Fadmin"))
		c := b.Cookies["sendcode-admin-form"]
		servertest.Same(t, path+": its cookie", fmt.Sprint(c.SameSite == http.SameSiteStrictMode, c.HttpOnly, c.Secure, c.MaxAge), "true true true 900")
		if strings.Contains(c.Value, "ticket") {
			t.Errorf("%s: not sealed", path)
		}
		shown := logInTo(b, form.page)
		for _, text := range append(form.shows, wasKept) {
			if !strings.Contains(shown, text) {
				t.Errorf("%s: %q is missing in %s", path, text, shown)
			}
		}
		servertest.Same(t, path+": done by itself", r.Did(), before)
		lacks(t, b.Get(form.page), wasKept)
		if got := b.Post(path, form.fields).Code; got >= 400 {
			t.Errorf("%s, sent again: %d", path, got)
		}
	}
}

// What is not kept is answered as without a token, and its page is as ever.
func TestSavedFormIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig, form url.Values)
		header []string
		status int
	}{
		"without a token": {change: func(_ *rig, form url.Values) { form.Del("token") }},
		"with another account's token": {change: func(r *rig, form url.Values) {
			form.Set("token", drawnToken(r.As("operator"), "/admin/suppressions"))
		}},
		"with a changed seal": {change: func(_ *rig, form url.Values) {
			seal := []byte(form.Get("token"))
			seal[len(seal)/2] ^= 1
			form.Set("token", string(seal))
		}},
		"of a page that is a day old": {change: func(r *rig, _ url.Values) { r.Clock.Add(24 * time.Hour) }},
		"too large":                   {change: func(_ *rig, form url.Values) { form.Set("reason", strings.Repeat("é", 1500)) }},
		"from another site":           {header: []string{"Sec-Fetch-Site", "cross-site"}, status: http.StatusForbidden},
		"with a file":                 {header: []string{"Content-Type", "multipart/form-data; boundary=x"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := loggedIn(t)
			form := url.Values{"channel": {"email"}, "to": {"cy@example.com"}, "reason": {"ticket 7"}, "token": {drawnToken(b, "/admin/suppressions")}}
			r.Clock.Add(31 * time.Minute) // the session ends, and the browser still has its cookie
			if c.change != nil {
				c.change(r, form)
			}
			rec := want(t, b.Post("/admin/suppressions", form, c.header...), cmp.Or(c.status, http.StatusSeeOther))
			if c.status == 0 {
				redirects(t, rec, "/admin/login?next=%2Fadmin%2Fsuppressions")
			}
			if b.Cookies["sendcode-admin-form"] != nil {
				t.Error("it is kept")
			}
			if page := logInTo(b, "/admin/suppressions"); strings.Contains(page, wasKept) || strings.Contains(page, "ticket 7") {
				t.Error("it comes back")
			}
		})
	}
}

// A form comes back within 15 minutes, on its page alone, and to no account but its own.
func TestSavedFormIsOfItsAccount(t *testing.T) {
	for _, late := range []bool{false, true} {
		r, b := loggedIn(t)
		form := url.Values{"channel": {"email"}, "to": {"cy@example.com"}, "reason": {"ticket 7"}, "token": {drawnToken(b, "/admin/suppressions")}}
		want(t, b.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
		want(t, b.Post("/admin/suppressions", form), http.StatusSeeOther)
		other := r.As("operator")
		other.Cookies["sendcode-admin-form"] = b.Cookies["sendcode-admin-form"]
		lacks(t, other.Get("/admin/suppressions"), wasKept, "ticket 7", "cy@")
		want(t, b.Login(consoletest.Password), http.StatusSeeOther)
		lacks(t, b.Get("/admin/suppressions?state=all"), wasKept, "ticket 7")
		lacks(t, b.Get("/admin/suppressions", "Sec-Fetch-Dest", "empty"), wasKept)
		r.Clock.Add(15*time.Minute - time.Microsecond)
		if late {
			r.Clock.Add(time.Microsecond)
		}
		page := b.Get("/admin/suppressions").Body.String()
		servertest.Same(t, fmt.Sprintf("late: %v, comes back", late), strings.Contains(page, wasKept), !late)
	}
}
