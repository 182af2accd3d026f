package console

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// The page shows each message, a mail's HTML in a frame that runs nothing and loads nothing; the
// API has the same messages.
func TestMessages(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	page := b.Get("/admin/messages?purpose=login")
	const frame = "/admin/messages/html?app=shop&amp;language=es&amp;purpose=login"
	contains(t, page, `<iframe sandbox loading="lazy" src="`+frame+`"`, `id="email-ar"`, `<option selected>login</option>`, "••• •••")
	if csp := page.Header().Get(cspHeader); !strings.HasSuffix(csp, "; frame-src 'self'") {
		t.Errorf("policy of the page: %s", csp)
	}
	html := want(t, b.Get("/admin/messages/html?app=shop&language=es&purpose=login"), http.StatusOK)
	contains(t, html, "<html", "••• •••")
	servertest.Same(t, "policy", html.Header().Get(cspHeader), sampleCSP)
	want(t, b.Get("/admin/messages/html?language=sux"), http.StatusNotFound)
	for _, query := range []string{"?app=other", "?purpose=other"} {
		want(t, b.Get("/admin/messages"+query), http.StatusUnprocessableEntity)
		b.Script(http.StatusUnprocessableEntity, "GET", "/v1/admin/messages"+query, "")
	}
	answer := b.Script(http.StatusOK, "GET", "/v1/admin/messages", "")
	servertest.Same(t, "messages", len(answer["messages"].([]any)), 4)
	servertest.Same(t, "purpose", answer["purpose"].(string), "login")
}
