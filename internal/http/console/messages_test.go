package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification/verificationtest"
)

// The page shows each message, and a mail's HTML in a frame that runs and loads nothing. The API
// has the same messages.
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
		page := want(t, b.Get("/admin/messages"+query, "Accept-Language", "zh"), http.StatusUnprocessableEntity)
		contains(t, page, ` action="/admin/messages"`, `<option selected>`, ` aria-describedby="filter-problem"`, `</b>: 收到的值是“other”。请用以下之一：`)
		lacks(t, page, "测试消息", "iframe")
		b.Script(http.StatusUnprocessableEntity, "GET", "/v1/admin/messages"+query, "")
	}
	answer := b.Script(http.StatusOK, "GET", "/v1/admin/messages", "")
	servertest.Same(t, "messages", len(answer["messages"].([]any)), 4)
	servertest.Same(t, "purpose", answer["purpose"].(string), "login")
}

// An owner sends a test message, and the page names the server that accepted it. For a minute after
// that, no owner can send another one.
func TestMessagesSendATestMessage(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	lacks(t, r.As("operator").Get("/admin/messages"), "Send a test message")
	contains(t, b.Get("/admin/messages?purpose=login"), "Send a test message", `name="purpose" value="login"`)
	form := url.Values{"app": {"shop"}, "purpose": {"login"}, "to": {"ana"}}
	contains(t, want(t, b.Post("/admin/messages", form), http.StatusUnprocessableEntity), `name="to" value="ana"`, `role="alert"`)
	form.Set("to", "ana@example.com")
	for _, other := range []url.Values{{"app": {"gym"}, "purpose": {"login"}}, {"app": {"shop"}, "purpose": {"gym"}}} {
		other.Set("to", "ana@example.com")
		want(t, b.Post("/admin/messages", other), http.StatusUnprocessableEntity) // nothing is sent, so no wait begins
	}
	contains(t, want(t, b.Post("/admin/messages", form), http.StatusOK), `<p class="note good" id="problem" role="status">`,
		"accepted it for a•••@example.com after ")
	rec := want(t, b.Post("/admin/messages", form), http.StatusTooManyRequests)
	contains(t, rec, "The next one is possible in 1 min.")
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "60")
	r.Clock.Add(time.Minute)
	r.MailServer.Answer(verificationtest.NoMailbox)
	contains(t, want(t, b.Post("/admin/messages", form), http.StatusOK), `<p class="note bad" id="problem" role="alert">`,
		"did not accept it for a•••@example.com: ")
	r.Clock.Add(time.Minute)
	r.MailServer.Answer(verificationtest.FailWith(delivery.Unknown, delivery.StageDot, 0, ""))
	contains(t, want(t, b.Post("/admin/messages", form), http.StatusOK), `<p class="note warn" id="problem" role="alert">`,
		"It is not known whether")
	r.Clock.Add(time.Minute)
	r.suppress("ana@example.com", "asked for no more mail")
	contains(t, want(t, b.Post("/admin/messages", form), http.StatusUnprocessableEntity), "This recipient is suppressed")
	servertest.Same(t, "recorded", len(r.Entries("message.test")), 6)
}
