package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
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

// Each form comes back filled on its page after the login, once; nothing is done until it is sent again, and that is as ever.
func TestKeptForm(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Webhooks = &sampler{} })
	b := r.LoggedIn()
	sent := explain.SendPageAddress(r.sent("ana@example.com").ID)
	_, hash := r.recipient("bo@example.com")
	bo := support.SuppressRequest{Channel: "email", To: "bo@example.com", Reason: "asked"}
	r.Must(r.Svc.Desk.Suppress(r.Context(), bo, r.act(auth.ActionSuppress)))
	pause := r.pausedPrefix("+49151")
	r.PutAccount(store.Account{Name: "mei", Role: "reader", Password: "x"})
	const reason = `name="reason" value="ticket 7"`
	for path, form := range map[string]struct {
		page   string
		fields url.Values
		shows  []string
	}{
		"/admin/suppressions": {"/admin/suppressions", url.Values{"channel": {"sms"}, "to": {"+4915112345678"}, "app": {"shop"}, "days": {"7"}},
			[]string{`<option value="sms" selected>`, `name="to" value="&#43;4915112345678"`, `name="app" value="shop"`, `value="7"`, reason}},
		"/admin/suppressions/lift?state=all": {"/admin/suppressions?state=all", url.Values{"channel": {"email"}, "address": {hash.String()}, "app": {""}},
			[]string{"<details open>", reason}},
		"/admin/prefixes/lift":     {"/admin/prefixes", url.Values{"id": {pause.ID.String()}}, []string{"<details open>", reason}},
		"/admin/acts/subscription": {"/admin/acts", url.Values{"provider": {"ses"}}, []string{"<details open>", "<option selected>ses", reason}},
		"/admin/accounts": {"/admin/accounts", url.Values{"do": {"add"}, "name": {"bea"}, "role": {"operator"}},
			[]string{`name="name" value="bea"`, `<option value="operator" selected>`, `value="ticket 7"`}},
		"/admin/accounts?": {"/admin/accounts", url.Values{"do": {"role"}, "name": {"mei"}, "role": {"owner"}},
			[]string{"<details open>", `<select id="role-mei" name="role"><option value="reader">reader</option><option value="operator">operator</option><option value="owner" selected>`, `value="ticket 7"`}},
		sent + "/erase": {sent + "?do=erase", url.Values{"sure": {"yes"}},
			[]string{reason, `<input type="checkbox" name="sure" value="yes" required>`, sent + "/erase"}},
		"/admin/search": {"/admin", url.Values{"q": {"bo@example.com"}}, []string{`value="bo@example.com"`}},
		"/admin/preview": {"/admin/preview", url.Values{"app": {"shop"}, "purpose": {"login"}, "to": {"cy@example.com"}, "locale": {"es"}},
			[]string{`name="to" value="cy@example.com"`, "<option selected>es"}},
		"/admin/webhooks": {"/admin/webhooks", url.Values{"app": {"shop"}, "event": {"send.bounced"}},
			[]string{"<option selected>send.bounced"}},
	} {
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
func TestKeptFormIsRefused(t *testing.T) {
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
func TestKeptFormIsOfItsAccount(t *testing.T) {
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
