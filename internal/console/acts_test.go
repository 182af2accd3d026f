package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

// acted writes an act as a deed does.
func (r *rig) acted(changes ...func(*store.AuditEntry)) store.AuditEntry {
	r.Helper()
	a := store.AuditEntry{
		ID: r.id(), Who: "mei", Role: "operator", Network: "192.0.2.1/32", What: "quota.reset", App: "shop", Channel: recipient.Email, Purpose: "login",
		Recipient: recipient.Hash{1}, To: "a•••@example.com", Reason: "<b>ticket 7</b>", Outcome: store.AuditDone,
	}
	for _, change := range changes {
		change(&a)
	}
	r.must(r.log.AddAuditEntry(context.Background(), a))
	return a
}

func TestActsAreListed(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	contains(t, b.Get("/v1/admin/acts", "Authorization", "Bearer "+consoletest.Token), `{"acts":[],"next":null}`)
	want(t, b.Login(consoletest.Password), http.StatusSeeOther)
	contains(t, b.Get("/admin/acts"), "logged in", "admin (owner)", "192.0.2.1/32")
	contains(t, b.Get("/admin/acts?who=nobody"), "Nothing has been done yet")
	r.clock.Add(time.Second)
	first := r.acted()
	r.clock.Add(time.Second)
	second := r.acted(func(a *store.AuditEntry) {
		a.Who, a.What, a.Recipient, a.To, a.App, a.Channel, a.Purpose, a.Network = "li", "account.add", recipient.Hash{}, "", "", "", "", ""
		a.Target, a.Outcome, a.Detail, a.Ends, a.Reason = "mei", store.AuditFailed, "limiter", first.ID, ""
	})
	send := r.sent("ana@example.com")
	r.acted(func(a *store.AuditEntry) { a.Target = send.ID.String() })

	page := b.Get("/admin/acts")
	want(t, page, http.StatusOK)
	contains(t, page, "a•••@example.com", "mei (operator)", "&lt;b&gt;ticket 7&lt;/b&gt;", "failed", "192.0.2.1/32", `href="/admin/sends/`+send.ID.String(), `aria-current="true"`)
	only := b.Get("/admin/acts?who=li&limit=1")
	contains(t, only, "li (operator)", "All acts")
	lacks(t, only, "mei (operator)")
	older := b.Get("/admin/acts?limit=1").Body.String()
	next := between(t, older, `<a href="/admin/acts?cursor=`, `"`)
	contains(t, b.Get("/admin/acts?cursor="+next+"&limit=1"), "li (operator)", "Newest")

	var got struct {
		Acts []map[string]any `json:"acts"`
		Next *string          `json:"next"`
	}
	rec := b.Get("/v1/admin/acts?what=account.add", "Authorization", "Bearer "+consoletest.Token)
	want(t, rec, http.StatusOK)
	r.must(json.Unmarshal(rec.Body.Bytes(), &got))
	if len(got.Acts) != 1 || got.Next != nil {
		t.Fatalf("%s", rec.Body)
	}
	a := got.Acts[0]
	for name, want := range map[string]any{
		"id": second.ID.String(), "who": "li", "role": "operator", "what": "account.add", "target": "mei", "outcome": "failed", "detail": "limiter",
		"ends": first.ID.String(), "to": nil, "recipient": nil, "app": nil, "reason": nil, "network": nil, "at": "2026-03-04T14:02:22.118Z",
	} {
		if a[name] != want {
			t.Errorf("%s: %v, want %v", name, a[name], want)
		}
	}
	hash := recipient.Hash{1}.String()
	contains(t, b.Get("/v1/admin/acts?recipient="+hash), `"recipient":"`+hash+`"`)
}

func TestActsAreAskedForRight(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	for _, bad := range []string{
		"who=a&who=b", "nobody=x", "status=sent", "limit=0", "limit=201", "cursor=x", "recipient=ana@example.com", "who=%00", "what=%FF", "who=%zz",
	} {
		for _, path := range []string{"/admin/acts?", "/v1/admin/acts?"} {
			if rec := b.Get(path + bad); rec.Code != http.StatusUnprocessableEntity && rec.Code != http.StatusBadRequest {
				t.Errorf("%s%s: %d", path, bad, rec.Code)
			}
		}
	}
	want(t, b.Get("/v1/admin/acts?who=&cursor="), http.StatusOK)
	want(t, r.browser().Get("/v1/admin/acts"), http.StatusUnauthorized)
	if to := r.browser().Get("/admin/acts").Header().Get("Location"); to != "/admin/login?next=%2Fadmin%2Facts" {
		t.Errorf("without a session to %s", to)
	}
	r.log.SetFault(func(string) sqlite.Fault { return sqlite.Down })
	want(t, b.Get("/admin/acts"), http.StatusServiceUnavailable)
	want(t, b.Get("/v1/admin/acts"), http.StatusServiceUnavailable)
}

// between is what stands in a page between two texts.
func between(t *testing.T, page, before, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, before)
	if !found {
		t.Fatalf("%q is missing in: %s", before, page)
	}
	text, _, _ := strings.Cut(rest, after)
	text, _, _ = strings.Cut(text, "&")
	return text
}
