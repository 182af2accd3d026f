package console

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/explain"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
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
	r, b := loggedIn(t)
	s := r.sent("ana@example.com")
	page := explain.SendAddress(s.ID)
	rec := b.Post(page+"/reset", because("ticket 7"))
	if to := rec.Header().Get("Location"); rec.Code != http.StatusSeeOther || to != page+"?done=quota.reset" || !r.free(s) {
		t.Errorf("%d to %s, free %v", rec.Code, to, r.free(s))
	}
	contains(t, b.Get("/admin"), "counted until the quota was reset")
	contains(t, b.Get("/admin/acts?what=quota.reset"), "reset the quota", page)
	lacks(t, b.Get(page+"?done=<script>"), "script>alert", "note good")
}

func TestADeedNeedsAReason(t *testing.T) {
	r, b := loggedIn(t)
	s := r.sent("ana.maria@example.com")
	for _, d := range sendActions {
		form := because("she is ana.maria@example.com")
		form.Set("sure", "yes")
		contains(t, want(t, b.Post(explain.SendAddress(s.ID)+"/"+d.Path, form), http.StatusUnprocessableEntity), "Leave names", "<details open>", `aria-invalid="true"`)
		if d.code {
			rec := b.Do(http.MethodPost, "/v1/admin/sends/"+s.ID.String()+"/"+d.Path, `{"reason":" "}`, "Content-Type", "application/json")
			want(t, rec, http.StatusUnprocessableEntity)
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
	r, b := loggedIn(t)
	s := r.sent("ana@example.com")
	page := explain.SendAddress(s.ID)
	rec := b.Post(page+"/reveal", because("ticket 7"))
	contains(t, rec, "The full recipient:", `<b class="shown">ana@example.com</b>`)
	lacks(t, b.Get(page), "ana@example.com")
	if got := rec.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
	contains(t, want(t, b.Post(page+"/resend", because("ticket 7")), http.StatusTooManyRequests), "Blocked by a rule for another 1 min")
	want(t, b.Post(page+"/cancel", because("ticket 7")), http.StatusSeeOther)
	contains(t, b.Get(page), "canceled")
	lacks(t, b.Get(page), page+"/cancel", page+"/resend") // not offered any more
	for _, path := range []string{"/cancel", "/resend"} {
		want(t, b.Post(page+path, because("again")), http.StatusConflict)
	}
	on := "a•••@example.com|ticket 7"
	r.Acts("admin|recipient.reveal|done||"+on, "admin|verification.resend|begun||"+on, "admin|verification.resend|failed|minute|"+on, "admin|verification.cancel|done||"+on)
	r.Unlogged("ana@example.com")
}

func TestEraseFromAPage(t *testing.T) {
	r, b := loggedIn(t)
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
	r, b := visited(t)
	post := func(status int, path, body string) {
		t.Helper()
		b.script(status, http.MethodPost, path, body)
	}
	s := r.sent("ana@example.com")
	const reset, erase, ask = "/v1/admin/quota/reset", "/v1/admin/erase", `{"channel":"email","to":"Ana@Example.com","purpose":"login","reason":"ticket 7"}`
	for _, path := range []string{reset, erase} {
		post(http.StatusUnprocessableEntity, path, `{"channel":"email","to":"ana@example.com","purpose":"login","reason":"for ana@example.com"}`)
	}
	r.Acts()
	post(http.StatusNoContent, reset, ask)
	if !r.free(s) {
		t.Error("not reset")
	}
	one := "/v1/admin/sends/" + s.ID.String()
	rec := b.Do(http.MethodPost, one+"/reveal", `{"reason":"ticket 7"}`, "Content-Type", "application/json", "Authorization", "Bearer "+consoletest.Token)
	contains(t, rec, `{"to":"ana@example.com"}`)
	post(http.StatusNoContent, one+"/cancel", `{"reason":"ticket 7"}`)
	post(http.StatusConflict, one+"/resend", `{"reason":"ticket 7"}`)
	post(http.StatusNoContent, erase, ask)
	post(http.StatusNotFound, one+"/reset", `{"reason":"x"}`) // there is one way to reset
	on := store.Erased + "|ticket 7"
	r.Acts("token|quota.reset|begun||"+on, "token|quota.reset|done||"+on, "token|recipient.reveal|done||"+on, "token|verification.cancel|done||"+on, "token|recipient.erase|done||"+on)
}

// A refusal belongs to no code: what needs one is not offered for it.
func TestDeedsOfARefusal(t *testing.T) {
	r, b := loggedIn(t)
	s := r.refused("ana@example.com", "minute", 42*time.Second, 3)
	page := b.Get(explain.SendAddress(s.ID))
	contains(t, page, "/reset", "/erase")
	lacks(t, page, "/resend", "/cancel", "/reveal")
	for _, path := range []string{"/resend", "/cancel", "/reveal"} {
		want(t, b.Post(explain.SendAddress(s.ID)+path, because("x")), http.StatusConflict)
	}
	r.take(r.row("ana@example.com"))
	want(t, b.Post(explain.SendAddress(s.ID)+"/reset", because("x")), http.StatusSeeOther)
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
		if got := len(actionsFor(auth.Actor{Name: "x", Role: role}, story)); got != n {
			t.Errorf("%s is offered %d deeds, want %d", role, got, n)
		}
	}
}
