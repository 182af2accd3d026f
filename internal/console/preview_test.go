package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/console/auth"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/verification"
)

func TestPreviewShowsEveryLanguage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	rec := b.Get("/admin/preview")
	want(t, rec, http.StatusOK)
	contains(t, rec, `id="email-en"`, `id="email-zh-Hans"`, "Your code for Shop", "482913", "S-7K3M-Q2XP", "您",
		`<iframe sandbox src="/admin/preview/html?app=shop&amp;locale=zh-Hans&amp;purpose=login"`, "Send one to me", `aria-current="true"`)
	contains(t, b.Get("/admin/preview", "Accept-Language", "zh-CN"), "消息预览", "发一份给我")
	if policy := rec.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "frame-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	html := b.Get("/admin/preview/html?app=shop&purpose=login&locale=zh-Hans")
	want(t, html, http.StatusOK)
	contains(t, html, `<html lang="zh-Hans">`, "482")
	if policy := html.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox; default-src 'none'") || strings.Contains(policy, "script-src") {
		t.Errorf("the mail's policy is %q", policy)
	}
	for path, status := range map[string]int{
		"/admin/preview?purpose=party": http.StatusUnprocessableEntity, "/admin/preview?app=unknown": http.StatusUnprocessableEntity,
		"/admin/preview/html?locale=fr": http.StatusNotFound, "/admin/preview/html?purpose=party": http.StatusUnprocessableEntity,
	} {
		want(t, b.Get(path), status)
	}
	want(t, r.browser().Get("/admin/preview"), http.StatusSeeOther)
	want(t, r.browser().Get("/admin/preview/html?locale=en"), http.StatusSeeOther)
}

// One that is sent for a look is in the log and the record, and bound by the rules.
func TestPreviewSendsOne(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	form := url.Values{"app": {"shop"}, "purpose": {"login"}, "locale": {"zh-Hans"}, "to": {" mei@example.com "}}
	rec := b.Post("/admin/preview", form)
	want(t, rec, http.StatusSeeOther)
	to := rec.Header().Get("Location")
	rows, err := r.Log.Sends(context.Background(), store.Filter{Reference: "preview", Limit: 10})
	r.Must(err)
	if len(rows) != 1 || to != "/admin/sends/"+rows[0].ID.String() || rows[0].Locale != "zh-Hans" || rows[0].To != "m•••@example.com" {
		t.Fatalf("leads to %s of %+v", to, rows)
	}
	contains(t, b.Get(to), "m•••@example.com", "preview")
	rec = b.Post("/admin/preview", form)
	want(t, rec, http.StatusTooManyRequests)
	contains(t, rec, "Blocked by a rule for another", `role="alert"`)
	for name, change := range map[string][2]string{"no address": {"to", ""}, "a bad one": {"to", "mei@"}, "no app": {"app", ""}, "no such app": {"app", "unknown"}} {
		bad := url.Values{}
		for k, v := range form {
			bad[k] = v
		}
		bad.Set(change[0], change[1])
		if rec := b.Post("/admin/preview", bad); rec.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", name, rec.Code)
		}
	}
	acts, err := r.Log.AuditEntries(context.Background(), store.AuditFilter{What: auth.ActionPreview, Limit: 10})
	r.Must(err)
	var outcomes []string
	for _, a := range acts {
		outcomes = append(outcomes, string(a.Outcome)+" "+a.Who)
		if strings.Contains(a.Reason+a.To+a.Detail, "mei@") {
			t.Errorf("the record has the address: %+v", a)
		}
	}
	if got := strings.Join(outcomes, ","); got != "failed admin,begun admin,done admin,begun admin" {
		t.Errorf("the record says %s", got)
	}
	want(t, b.Post("/admin/preview", form, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
	want(t, r.browser().Post("/admin/preview", form), http.StatusSeeOther)
	rows, err = r.Log.Sends(context.Background(), store.Filter{Reference: "preview", Limit: 10})
	r.Must(err)
	if rows = slices.DeleteFunc(rows, func(s store.Send) bool { return s.Status == store.Refused }); len(rows) != 1 {
		t.Errorf("%d were sent", len(rows))
	}
}

// Readers look, and have nothing sent.
func TestPreviewForReaders(t *testing.T) {
	r := newRig(t)
	page := r.as(auth.Reader).Get("/admin/preview")
	want(t, page, http.StatusOK)
	lacks(t, page, "Send one to me")
	contains(t, r.as(auth.Operator).Get("/admin/preview"), "Send one to me")
}

// A template that fails says so, and the rest of the console goes on.
func TestPreviewOfABrokenTemplate(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Previews = broken{c.Previews} })
	want(t, r.loggedIn().Get("/admin/preview"), http.StatusServiceUnavailable)
}

type broken struct{ Previews }

func (broken) Samples(string, string) ([]support.Sample, error) {
	return nil, verification.ErrUnavailable
}
