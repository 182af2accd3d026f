package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/store"
)

// The frame of a mail has no scripts; TestPages has the page around it.
func TestPreviewedMail(t *testing.T) {
	r, b := loggedIn(t)
	const frame = `<iframe sandbox src="/admin/preview/html?app=shop&amp;locale=zh-Hans&amp;purpose=login"`
	contains(t, b.Get("/admin/preview"), frame, "Send one to me")
	lacks(t, r.As("reader").Get("/admin/preview"), "Send one to me")
	html := b.Get("/admin/preview/html?app=shop&purpose=login&locale=zh-Hans")
	contains(t, html, `<html lang="zh-Hans" dir="ltr">`, ">482913<")
	policy := html.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox; default-src 'none'") || strings.Contains(policy, "script-src") {
		t.Errorf("the mail's policy is %q", policy)
	}
	for path, status := range map[string]int{
		"?purpose=party": http.StatusUnprocessableEntity, "?app=unknown": http.StatusUnprocessableEntity,
		"/html?locale=sux": http.StatusNotFound,
	} {
		want(t, b.Get("/admin/preview"+path), status)
	}
}

// One that is sent for a look is in the database and the record, and bound by the rules.
func TestPreviewSendsOne(t *testing.T) {
	r, b := loggedIn(t)
	form := url.Values{"app": {"shop"}, "purpose": {"login"}, "locale": {"zh-Hans"}, "to": {" mei@example.com "}}
	rec := want(t, b.Post("/admin/preview", form), http.StatusSeeOther)
	to := rec.Header().Get("Location")
	rows, err := r.Store.Sends(context.Background(), store.Filter{Labels: store.Labels{Reference: "preview"}, Limit: 10})
	r.Must(err)
	if len(rows) != 1 || to != "/admin/sends/"+rows[0].ID.String() || rows[0].Locale != "zh-Hans" || rows[0].To != "m•••@example.com" {
		t.Fatalf("leads to %s of %+v", to, rows)
	}
	contains(t, b.Get(to), "m•••@example.com", "preview")
	contains(t, want(t, b.Post("/admin/preview", form), http.StatusTooManyRequests), "Blocked by a rule for another", `role="alert"`)
	form.Set("to", "mei@")
	want(t, b.Post("/admin/preview", form), http.StatusUnprocessableEntity)
}
