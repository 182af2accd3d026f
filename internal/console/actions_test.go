package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/explain"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/texts"
	"sendcode/quota"
)

func because(reason string) url.Values { return url.Values{"reason": {reason}} }

// free says whether both gates would let one more through.
func (r *rig) free(s store.Send) bool {
	r.Helper()
	d, err := r.codes.RecipientQuota(context.Background(), s.App, s.Channel, s.Purpose, s.Recipient)
	r.Must(err)
	events, _, err := r.Log.History(context.Background(), store.Bucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: []string{s.Purpose}}, time.Hour)
	r.Must(err)
	return d.Allowed() && len(events) == 0
}

func TestResetFromAPage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.sent("ana@example.com")
	page := explain.SendAddress(s.ID)
	contains(t, b.Get(page), "Reset the quota", `action="`+page+`/reset"`, "required")
	rec := b.Post(page+"/reset", because("ticket 7"))
	want(t, rec, http.StatusSeeOther)
	if to := rec.Header().Get("Location"); to != page+"?done=quota.reset" {
		t.Errorf("to %s", to)
	}
	contains(t, b.Get(rec.Header().Get("Location")), "The quota is reset", `role="status"`)
	contains(t, b.Get("/admin"), "counted until the quota was reset")
	if !r.free(s) {
		t.Error("still limited")
	}
	r.Acts("admin|quota.reset|begun||a•••@example.com|ticket 7", "admin|quota.reset|done||a•••@example.com|ticket 7")
	contains(t, b.Get("/admin/acts?what=quota.reset"), "reset the quota", page)
	lacks(t, b.Get(page+"?done=<script>"), "script>alert", "note good")
}

func TestADeedNeedsAReason(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.sent("ana.maria@example.com")
	for _, d := range sendActions {
		for reason, say := range map[string]string{
			"": "Say why", " ": "Say why", "she is ana.maria@example.com": "Leave names", strings.Repeat("x", 501): "at most 500",
		} {
			form := because(reason)
			form.Set("sure", "yes")
			rec := b.Post(explain.SendAddress(s.ID)+"/"+d.path, form)
			want(t, rec, http.StatusUnprocessableEntity)
			contains(t, rec, say, "<details open>", `aria-invalid="true"`)
			if d.code {
				rec = b.Do(http.MethodPost, "/v1/admin/sends/"+s.ID.String()+"/"+d.path, `{"reason":"`+reason+`"}`, "Content-Type", "application/json")
				want(t, rec, http.StatusUnprocessableEntity)
			}
		}
	}
	rec := b.Post(explain.SendAddress(s.ID)+"/erase", because("asked by <letter>"))
	want(t, rec, http.StatusUnprocessableEntity)
	contains(t, rec, "Tick the box", "asked by &lt;letter&gt;")
	want(t, b.Post("/admin/sends/00000000-0000-7000-8000-000000000000/reset", because("x")), http.StatusNotFound)
	r.Acts()
	if r.free(s) {
		t.Error("reset all the same")
	}
}

func TestCancelResendAndReveal(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.sent("ana@example.com")
	page := explain.SendAddress(s.ID)

	rec := b.Post(page+"/reveal", because("ticket 7"))
	want(t, rec, http.StatusOK)
	contains(t, rec, "The full recipient:", `<b class="shown">ana@example.com</b>`)
	lacks(t, b.Get(page), "ana@example.com")
	if got := rec.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
	rec = b.Post(page+"/resend", because("ticket 7"))
	want(t, rec, http.StatusTooManyRequests)
	contains(t, rec, "Blocked by a rule for another 1 min")
	want(t, b.Post(page+"/cancel", because("ticket 7")), http.StatusSeeOther)
	contains(t, b.Get(page), "canceled")
	lacks(t, b.Get(page), page+"/cancel", page+"/resend") // not offered any more
	for _, path := range []string{"/cancel", "/resend"} {
		rec = b.Post(page+path, because("again"))
		want(t, rec, http.StatusConflict)
	}
	on := "a•••@example.com|ticket 7"
	r.Acts("admin|recipient.reveal|done||"+on, "admin|verification.resend|begun||"+on, "admin|verification.resend|failed|minute|"+on, "admin|verification.cancel|done||"+on)
	if strings.Contains(r.Logged.String(), "ana@example.com") {
		t.Error("the recipient is in the log")
	}
}

func TestEraseFromAPage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order 7" })
	form := because("letter of 3 March")
	form.Set("sure", "yes")
	want(t, b.Post(explain.SendAddress(s.ID)+"/erase", form), http.StatusSeeOther)
	page := b.Get(explain.SendAddress(s.ID))
	lacks(t, page, "a•••@", "order 7", "203.0.113", "Show the full recipient")
	contains(t, page, store.Erased)
	want(t, b.Post(explain.SendAddress(s.ID)+"/reveal", because("curious")), http.StatusConflict)
	if r.free(s) {
		t.Error("being erased freed quota")
	}
	r.Acts("admin|recipient.erase|done||" + store.Erased + "|letter of 3 March")
}

func TestDeedsByScript(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	post := func(path, body string, header ...string) int {
		t.Helper()
		return b.Do(http.MethodPost, path, body, append([]string{"Content-Type", "application/json", "Authorization", "Bearer " + consoletest.Token}, header...)...).Code
	}
	s := r.sent("ana@example.com")
	for body, status := range map[string]int{
		`{"channel":"email","to":"ana@example.com","purpose":"login","reason":""}`:                    422,
		`{"channel":"email","to":"ana@example.com","purpose":"login"}`:                                422,
		`{"channel":"email","to":"ana","purpose":"login","reason":"x"}`:                               422,
		`{"channel":"email","to":"ana@example.com","purpose":"none","reason":"x"}`:                    422,
		`{"channel":"email","to":"ana@example.com","purpose":"login","app":"none","reason":"x"}`:      422,
		`{"channel":"email","to":"ana@example.com","purpose":"login","reason":"x","more":1}`:          400,
		`{"channel":"email","to":"ana@example.com","purpose":"login","reason":"for ana@example.com"}`: 422,
		`{`: 400, `[]`: 400,
	} {
		for _, path := range []string{"/v1/admin/quota/reset", "/v1/admin/erase"} {
			if got := post(path, body); got != status {
				t.Errorf("%s %s: %d, want %d", path, body, got, status)
			}
		}
	}
	r.Acts()
	ask := `{"channel":"email","to":"Ana@Example.com","purpose":"login","reason":"ticket 7"}`
	if got := post("/v1/admin/quota/reset", ask); got != http.StatusNoContent || !r.free(s) {
		t.Errorf("reset: %d, free %v", got, r.free(s))
	}
	one := "/v1/admin/sends/" + s.ID.String()
	rec := b.Do(http.MethodPost, one+"/reveal", `{"reason":"ticket 7"}`, "Content-Type", "application/json", "Authorization", "Bearer "+consoletest.Token)
	want(t, rec, http.StatusOK)
	contains(t, rec, `{"to":"ana@example.com"}`)
	if got := post(one+"/cancel", `{"reason":"ticket 7"}`); got != http.StatusNoContent {
		t.Errorf("cancel: %d", got)
	}
	if got := post(one+"/resend", `{"reason":"ticket 7"}`); got != http.StatusConflict {
		t.Errorf("resend of a canceled code: %d", got)
	}
	if got := post("/v1/admin/erase", ask); got != http.StatusNoContent {
		t.Errorf("erase: %d", got)
	}
	if got := post(one+"/reset", `{"reason":"x"}`); got != http.StatusNotFound {
		t.Errorf("there is one way to reset: %d", got)
	}
	on := store.Erased + "|ticket 7"
	r.Acts("token|quota.reset|begun||"+on, "token|quota.reset|done||"+on, "token|recipient.reveal|done||"+on, "token|verification.cancel|done||"+on, "token|recipient.erase|done||"+on)
}

// Nothing is done by an unknown client, or by a page of another site.
func TestDeedsFromElsewhere(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.sent("ana@example.com")
	form := because("ticket 7")
	form.Set("sure", "yes")
	for _, d := range sendActions {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			want(t, b.Post(explain.SendAddress(s.ID)+"/"+d.path, form, header...), http.StatusForbidden)
		}
		rec := r.browser().Post(explain.SendAddress(s.ID)+"/"+d.path, form)
		if rec.Code != http.StatusSeeOther || !strings.HasPrefix(rec.Header().Get("Location"), "/admin/login") {
			t.Errorf("%s without a session: %d", d.name, rec.Code)
		}
		want(t, b.Get(explain.SendAddress(s.ID)+"/"+d.path), http.StatusMethodNotAllowed) // a GET changes nothing
	}
	for _, path := range []string{"/v1/admin/quota/reset", "/v1/admin/erase", "/v1/admin/sends/" + s.ID.String() + "/cancel"} {
		ask := `{"channel":"email","to":"ana@example.com","purpose":"login","reason":"x"}`
		want(t, b.Do(http.MethodPost, path, ask, "Content-Type", "application/json", "Origin", "https://evil.example"), http.StatusForbidden)
		want(t, r.browser().Do(http.MethodPost, path, ask, "Content-Type", "application/json"), http.StatusUnauthorized)
		want(t, r.browser().Do(http.MethodPost, path, ask, "Content-Type", "application/json", "Authorization", "Bearer wrong"), http.StatusUnauthorized)
	}
	r.Acts()
	if r.free(s) {
		t.Error("reset")
	}
}

func TestDeedsWithoutTheLogOrTheLimiter(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.sent("ana@example.com")
	for _, method := range []string{"ResetCounters", "AddAuditEntry"} {
		r.Log.SetFault(func(m string) sqlite.Fault {
			if m == method {
				return sqlite.Down
			}
			return sqlite.None
		})
		path := map[string]string{"ResetCounters": "/reset", "AddAuditEntry": "/reveal"}[method]
		rec := b.Post(explain.SendAddress(s.ID)+path, because("ticket 7"))
		want(t, rec, http.StatusServiceUnavailable)
		contains(t, rec, "It could not be done")
		lacks(t, rec, "ana@example.com")
	}
	r.Log.SetFault(nil)
	r.Acts()
}

// A refusal belongs to no code: what needs one is not offered for it.
func TestDeedsOfARefusal(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	s := r.refused("ana@example.com", "minute", 42*time.Second, 3)
	page := b.Get(explain.SendAddress(s.ID))
	contains(t, page, "/reset", "/erase")
	lacks(t, page, "/resend", "/cancel", "/reveal")
	for _, path := range []string{"/resend", "/cancel", "/reveal"} {
		want(t, b.Post(explain.SendAddress(s.ID)+path, because("x")), http.StatusConflict)
	}
	r.take(r.row("ana@example.com"))
	want(t, b.Post(explain.SendAddress(s.ID)+"/reset", because("x")), http.StatusSeeOther)
	_, err := r.Limiter.Peek(context.Background(), quota.Request{})
	r.Must(err)
	if !r.free(store.Send{App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: s.Recipient}) {
		t.Error("not reset")
	}
}

func TestOnlyWhatARoleMayIsOffered(t *testing.T) {
	r := newRig(t)
	s := r.sent("ana@example.com")
	story, err := r.Log.Story(context.Background(), s.ID)
	r.Must(err)
	for role, n := range map[auth.Role]int{auth.Reader: 0, auth.Operator: 4, auth.Owner: 5, "": 0} {
		if got := len(actionViews(auth.Actor{Name: "x", Role: role}, story, note{}, texts.For(""))); got != n {
			t.Errorf("%s is offered %d deeds, want %d", role, got, n)
		}
	}
}
