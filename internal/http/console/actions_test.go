package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlite/sqlitetest"
)

func because(reason string) url.Values { return url.Values{"reason": {reason}} }

// free says whether both gates would let one more through.
func (r *rig) free(s store.Send) bool {
	r.Helper()
	d, err := r.Svc.RecipientQuota(context.Background(), s.App, s.Channel, s.Purpose, s.Recipient, store.SecretKeyClass)
	r.Must(err)
	bucket := store.Bucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: []string{s.Purpose}}
	h, err := r.Store.ReadHistory(context.Background(), rowrules.HistoryQuery{Bucket: bucket, CountedWithin: time.Hour})
	r.Must(err)
	return d.Allowed() && len(h.Past) == 0
}

func TestADeedNeedsAReason(t *testing.T) {
	r, b := loggedIn(t)
	s := r.sent("ana.maria@example.com")
	page := explain.SendPageAddress(s.ID)
	for _, d := range sendActions {
		form := because("she is ana.maria@example.com")
		form.Set("sure", "yes")
		rec := want(t, b.Post(page+"/"+d.Path, form), http.StatusUnprocessableEntity)
		contains(t, rec, "Leave names", `action="`+page+"/"+d.Path, `aria-invalid="true"`)
		if d.needsVerification {
			b.Script(http.StatusUnprocessableEntity, http.MethodPost, "/v1"+page+"/"+d.Path, `{"reason":" "}`)
		}
	}
	for _, path := range []string{"/erase", "/cancel"} { // can't be undone
		contains(t, want(t, b.Post(page+path, because("asked")), http.StatusUnprocessableEntity), "Tick the box",
			`<button type="submit" class="bad">`)
	}
	want(t, b.Post("/admin/sends/00000000-0000-7000-8000-000000000000/reset", because("x")), http.StatusNotFound)
	lacks(t, b.Get(page+"?done=<script>"), "script>alert", "note good")
	r.Acts()
	if r.free(s) {
		t.Error("reset all the same")
	}
}

// An action that is not committed is neither recorded nor logged: the rig compares lines and
// records.
func TestActionsThatAreNotCommitted(t *testing.T) {
	r, b := loggedIn(t)
	s := r.sent("ana@example.com")
	r.Store.SetHook(func(_ context.Context, _ string, at sqlitetest.Stage) sqlitetest.Fault {
		if at == sqlitetest.Committing {
			return sqlitetest.Down
		}
		return sqlitetest.None
	})
	for _, d := range sendActions {
		if rec := b.Post(explain.SendPageAddress(s.ID)+"/"+d.Path,
			url.Values{"reason": {"ticket 7"}, "sure": {"yes"}}); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", d.Name, rec.Code)
		}
	}
	r.Store.SetFault(nil)
	r.Acts()
}

// A subscription is accepted for a provider with a topic alone, and with a reason; the list of acts
// offers it, except to readers.
func TestAcceptingASubscription(t *testing.T) {
	r, b := loggedIn(t)
	const path, script = "/admin/acts/subscription", "/v1/admin/subscriptions"
	contains(t, b.Get("/admin/acts"), `action="`+path+`"`, "<option>ses</option>")
	lacks(t, r.As("reader").Get("/admin/acts"), path)
	contains(t, b.Post(path, url.Values{"provider": {"ses"}, "reason": {" "}}), "Say why; it is recorded.")
	contains(t, want(t, b.Post(path, url.Values{"provider": {"resend"}, "reason": {"x"}}),
		http.StatusUnprocessableEntity), "No provider of this name has a topic.")
	b.Script(http.StatusUnprocessableEntity, http.MethodPost, script, `{"provider":"resend","reason":"x"}`)
	r.Acts("test|account.add|done|||")
	redirects(t, b.Post(path, url.Values{"provider": {"ses"}, "reason": {"ticket 7"}}), "/admin/acts")
	b.Script(http.StatusNoContent, http.MethodPost, script, `{"provider":"ses","reason":"ticket 8"}`)
	r.Acts("test|account.add|done|||", "admin|subscription.accept|begun|||ticket 7", "token|subscription.accept|begun|||ticket 8")
	contains(t, b.Get("/admin/acts"), "accepted a subscription", "ticket 8")
}

// From a page: what is done is shown, recorded, and not offered again.
func TestDeedsFromAPage(t *testing.T) {
	r, b := loggedIn(t)
	s := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order 7" })
	page := explain.SendPageAddress(s.ID)
	post := func(path string) *httptest.ResponseRecorder {
		return b.Post(page+path, url.Values{"reason": {"ticket 7"}, "sure": {"yes"}})
	}
	rec := post("/reveal")
	contains(t, rec, "The full recipient:", `<b class="shown">ana@example.com</b>`)
	servertest.Same(t, "Cache-Control", rec.Header().Get("Cache-Control"), "no-store")
	lacks(t, b.Get(page), "ana@example.com")
	rec = want(t, post("/resend"), http.StatusTooManyRequests)
	contains(t, rec, "Blocked by a rule for another 1 min")
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "60")
	redirects(t, post("/cancel"), page+"?done=verification.cancel")
	// not offered any more
	lacks(t, b.Get(page+"?do=cancel"), "do=cancel#", "do=resend#", "<form method=\"post\" action=\""+page)
	want(t, post("/cancel"), http.StatusConflict)
	want(t, post("/resend"), http.StatusConflict)
	on := "a•••@example.com|ticket 7"
	r.Acts("admin|recipient.reveal|done||"+on, "admin|verification.resend|begun||"+on, "admin|verification.resend|failed|minute|"+on,
		"admin|verification.cancel|done||"+on)
	want(t, post("/erase"), http.StatusSeeOther)
	rec = b.Get(page)
	contains(t, rec, store.ErasedMask)
	lacks(t, rec, "a•••@", "order 7", "203.0.113", "Show the full recipient")
	want(t, post("/reveal"), http.StatusConflict)
	if r.free(s) {
		t.Error("being erased freed quota")
	}
	r.Unlogged("ana@example.com")
}

func TestDeedsByScript(t *testing.T) {
	r, b := visited(t)
	s := r.sent("ana@example.com")
	one := "/v1" + explain.SendPageAddress(s.ID)
	const reset, erase, export = "/v1/admin/quota/reset", "/v1/admin/erase", "/v1/admin/export"
	const ask = `{"channel":"email","to":"Ana@Example.com","purpose":"login","reason":"%s"}`
	post := func(status int, path, body string) {
		t.Helper()
		b.Script(status, http.MethodPost, path, body)
	}
	post(http.StatusUnprocessableEntity, reset, fmt.Sprintf(ask, "for ana@example.com"))
	post(http.StatusUnprocessableEntity, erase, fmt.Sprintf(ask, "for ana@example.com"))
	post(http.StatusUnprocessableEntity, export, fmt.Sprintf(ask, "for ana@example.com"))
	r.Acts()
	header := []string{"Content-Type", "application/json", "Authorization", "Bearer " + consoletest.Token}
	limited := want(t, b.Do(http.MethodPost, one+"/resend", `{"reason":"ticket 7"}`, header...), http.StatusConflict)
	servertest.Same(t, "Retry-After", limited.Header().Get("Retry-After"), "60")
	post(http.StatusNoContent, reset, fmt.Sprintf(ask, "ticket 7"))
	if !r.free(s) {
		t.Error("not reset")
	}
	contains(t, b.Do(http.MethodPost, one+"/reveal", `{"reason":"ticket 7"}`, header...), `{"to":"ana@example.com"}`)
	post(http.StatusNoContent, one+"/cancel", `{"reason":"ticket 7"}`)
	post(http.StatusConflict, one+"/resend", `{"reason":"ticket 7"}`)
	contains(t, want(t, b.Do(http.MethodPost, export, fmt.Sprintf(ask, "ticket 7"), header...), http.StatusOK), `"sends": {`, s.ID.String())
	post(http.StatusNoContent, erase, fmt.Sprintf(ask, "ticket 7"))
	post(http.StatusNotFound, one+"/reset", `{"reason":"x"}`) // there is one way to reset
	on := store.ErasedMask + "|ticket 7"
	r.Acts("token|verification.resend|begun||"+on, "token|verification.resend|failed|minute|"+on, "token|quota.reset|begun||"+on,
		"token|quota.reset|done||"+on, "token|recipient.reveal|done||"+on,
		"token|verification.cancel|done||"+on, "token|recipient.export|begun||"+on, "token|recipient.export|done|rows=16|"+on,
		"token|recipient.erase|done||"+on)
}

// A person's export is recorded before a row is given, to operators alone; it has no code, no
// member of staff and no network of a send whose code was not entered. It ends as failed where the
// database goes away.
func TestAPersonsExport(t *testing.T) {
	r, b := loggedIn(t)
	s := r.sent("ana@example.com", func(s *store.Send) { s.Network = "198.51.100.0/24" })
	r.sent("bo@example.com")
	page := explain.SendPageAddress(s.ID)
	contains(t, b.Get(page), "?do=export")
	lacks(t, want(t, b.Post(page+"/export", url.Values{}), http.StatusUnprocessableEntity), "verifications")
	r.Acts()
	rec := want(t, b.Post(page+"/export", because("ticket 7")), http.StatusOK)
	servertest.Same(t, "the file", rec.Header().Get("Content-Disposition"), `attachment; filename="person.json"`)
	var file map[string]struct {
		About string
		Rows  []map[string]any
	}
	r.Must(json.Unmarshal(rec.Body.Bytes(), &file))
	if rows := file["sends"].Rows; len(rows) != 1 || rows[0]["id"] != s.ID.String() || rows[0]["network"] != "" ||
		rows[0]["finished_at"] == nil ||
		!strings.Contains(file["sends"].About, "for ever") || len(file["verifications"].Rows) != 1 || len(file["audit_entries"].Rows) != 1 {
		t.Errorf("%s", rec.Body)
	}
	lacks(t, rec, "bo@example.com", "198.51.100", `"admin"`, "ticket 7", s.VerificationID)
	acts := []string{"admin|recipient.export|begun||" + s.To + "|ticket 7", "admin|recipient.export|done|rows=4|" + s.To + "|ticket 7"}
	r.Acts(acts...)
}

// A refusal belongs to no code: what needs one is not offered for it.
func TestDeedsOfARefusal(t *testing.T) {
	r, b := loggedIn(t)
	s := r.refused("ana@example.com", "minute", 42*time.Second, 3)
	page := b.Get(explain.SendPageAddress(s.ID))
	contains(t, page, "?do=reset", "?do=erase")
	lacks(t, page, "?do=resend", "?do=cancel", "?do=reveal")
	for _, path := range []string{"/resend", "/cancel", "/reveal"} {
		want(t, b.Post(explain.SendPageAddress(s.ID)+path, url.Values{"reason": {"x"}, "sure": {"yes"}}), http.StatusConflict)
	}
	r.take(r.row("ana@example.com"))
	want(t, b.Post(explain.SendPageAddress(s.ID)+"/reset", because("x")), http.StatusSeeOther)
	if !r.free(store.Send{App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: s.Recipient}) {
		t.Error("not reset")
	}
}

// Each role is offered what it may do, and none to send a code of a caller again, which is not
// kept.
func TestOnlyWhatARoleMayIsOffered(t *testing.T) {
	r := newRig(t)
	s := r.sent("ana@example.com")
	story, err := r.Store.SendDetails(context.Background(), s.ID)
	r.Must(err)
	const operators = "quota.reset verification.resend verification.cancel recipient.reveal recipient.export"
	for role, want := range map[auth.Role]string{
		auth.Reader: "", auth.Operator: operators,
		auth.Owner: operators + " recipient.erase", "": "",
	} {
		for _, callers := range []bool{false, true} {
			story.Verification.CallerChecks = callers
			var got []string
			for _, action := range actionsFor(auth.Actor{Name: "x", Role: role}, story) {
				got = append(got, string(action.Name))
			}
			if callers {
				want = strings.Replace(want, "verification.resend ", "", 1)
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("%q is offered %q, want %q; a caller's code: %v", role, got, want, callers)
			}
		}
	}
}
