package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// script makes a request with the token and a body in JSON, and decodes the answer.
func (b *browser) script(status int, method, path, body string) map[string]any {
	b.Helper()
	rec := b.Do(method, path, body, "Content-Type", "application/json", "Authorization", "Bearer "+consoletest.Token)
	want(b.T, rec, status)
	lacks(b.T, rec, "ana@", `"sealed"`, "nonce")
	var v map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil && rec.Body.Len() > 0 {
		b.Fatalf("%v: %s", err, rec.Body)
	}
	return v
}

// list returns the rows of a list.
func (b *browser) list(name, path string) (rows []map[string]any) {
	b.Helper()
	for _, row := range b.script(http.StatusOK, http.MethodGet, path, "")[name].([]any) {
		rows = append(rows, row.(map[string]any))
	}
	return rows
}

// holds fails the test unless a row has these members.
func holds[V comparable](t *testing.T, row, members map[string]V) {
	t.Helper()
	for name, value := range members {
		if row[name] != value {
			t.Errorf("%s: %v, want %v", name, row[name], value)
		}
	}
}

// members are those of DESIGN.md, section 3, and no others.
var members = []string{"app", "at", "attempts", "blocked_by", "channel", "count", "id", "provider", "provider_code", "purpose", "reason",
	"recipient", "reference", "retry_after", "status", "to", "took_ms", "verification_id"}

func TestListJSON(t *testing.T) {
	r := newRig(t)
	sent := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" })
	refused := r.refused("ana@example.com", "minute", 41713*time.Millisecond, 3)
	got := r.browser().list("sends", "/v1/admin/sends")
	_, hash := r.recipient("ana@example.com")
	for i, is := range []map[string]any{
		{"id": refused.ID.String(), "verification_id": nil, "at": "2026-03-04T14:02:20.302Z", "channel": "email", "to": "a•••@example.com",
			"recipient": hash.String(), "purpose": "login", "app": "shop", "status": "refused", "reason": nil, "blocked_by": "minute",
			"retry_after": 42.0, "count": 3.0, "attempts": 0.0, "provider": nil, "provider_code": nil, "took_ms": nil, "reference": nil},
		{"id": sent.ID.String(), "verification_id": sent.VerificationID, "at": "2026-03-04T14:02:20.118Z", "channel": "email", "to": "a•••@example.com",
			"recipient": hash.String(), "purpose": "login", "app": "shop", "status": "sent", "reason": nil, "blocked_by": nil,
			"retry_after": nil, "count": 1.0, "attempts": 1.0, "provider": "mx1.example.net", "provider_code": "250 2.0.0", "took_ms": 184.0, "reference": "order-7"},
	} {
		if names := slices.Sorted(maps.Keys(got[i])); len(got) != 2 || !maps.Equal(got[i], is) || !slices.Equal(names, members) {
			t.Errorf("row %d:\n%v\nwant\n%v", i, got[i], is)
		}
	}
	empty := r.browser().Get("/v1/admin/sends?status=failed", "Authorization", "Bearer "+consoletest.Token)
	if got := strings.TrimSpace(empty.Body.String()); got != `{"next":null,"sends":[]}` {
		t.Errorf("empty: %s", got)
	}
}

func TestSendJSON(t *testing.T) {
	r := newRig(t)
	begun := r.begin("ana@example.com", func(s *store.Send) { s.Observed = []string{"office", "stricter"} })
	r.finish(begun.Send, store.Outcome{Status: store.Sent, Provider: "mx1", ProviderCode: "250 2.0.0", Took: 400 * time.Microsecond})
	for range 2 {
		r.OK(r.Log.Attempt(context.Background(), begun.Verification.ID))
	}
	r.refused("ana@example.com", "minute", 30*time.Second, 1)
	b := r.browser()
	got := b.script(http.StatusOK, "GET", "/v1/admin/sends/"+begun.Send.ID.String(), "")
	for _, name := range members {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	holds(t, got, map[string]any{"took_ms": 1.0, "number": 1.0, "finished_at": "2026-03-04T14:02:20.118Z", "network": "203.0.113.0/24"})
	if observed := got["observed"].([]any); !slices.Equal(observed, []any{"office", "stricter"}) {
		t.Errorf("observed: %v", observed)
	}
	holds(t, got["verification"].(map[string]any), map[string]any{
		"status": "pending", "attempts": 2.0, "max_attempts": 5.0, "expires_at": "2026-03-04T14:12:20.118Z", "approved_at": nil,
	})
	if related := got["related"].([]any); len(related) != 2 || related[1].(map[string]any)["status"] != "refused" {
		t.Errorf("related: %v", related)
	}
	q := got["quota"].(map[string]any)
	holds(t, q, map[string]any{"allowed": false, "retry_after": 60.0, "blocked_by": "minute", "retry_at": "2026-03-04T14:03:21.000Z"})
	if rules := q["rules"].([]any); len(rules) != 3 || !maps.Equal(rules[1].(map[string]any),
		map[string]any{"name": "hour", "limit": 5.0, "window": 3600.0, "remaining": 4.0, "reset_after": 3600.0}) {
		t.Errorf("rules: %v", rules)
	}
	holds(t, got["verdict"].(map[string]any), map[string]any{"what": "Accepted by mx1 at 2026-03-04 14:02:20 UTC (250 2.0.0)."})

	gone := r.refused("ana@example.com", "minute", time.Minute, 1, func(s *store.Send) { s.Purpose = "gone" }).ID.String()
	got = b.script(http.StatusOK, "GET", "/v1/admin/sends/"+gone, "")
	if got["quota"] != nil || got["verification"] != nil || len(got["observed"].([]any)) != 0 {
		t.Errorf("without its policy: %v", got)
	}
	contains(t, r.loggedIn().Get("/admin/sends/"+gone), "no longer configured")
}

// A refusal by a rule on failures, which nothing mentions any more: the way is free.
func TestRefusalByFailuresThatHaveLeft(t *testing.T) {
	r := newRig(t)
	terms := r.codes.Terms()
	p := terms.Purposes["login"]
	p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 1, Window: time.Hour},
		quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 1, Window: time.Hour, Observe: true})
	terms.Purposes = map[string]policy.Purpose{"login": p}
	r.codes.Change(terms)
	row := r.refused("ana@example.com", "failures", time.Minute, 1)
	b := r.loggedIn()
	rec := b.Get("/admin/sends/" + row.ID.String())
	contains(t, rec, "They can ask again now.")
	lacks(t, rec, "more than the recipient", `pips-name">failures`, "stricter")
	rules := b.script(http.StatusOK, "GET", "/v1/admin/sends/"+row.ID.String(), "")["quota"].(map[string]any)["rules"].([]any)
	if len(rules) != 3 {
		t.Errorf("%v", rules)
	}
}

// A refusal that belongs to no verification is told with what led to it.
func TestRefusalShowsWhatLedToIt(t *testing.T) {
	r := newRig(t)
	r.refused("ana@example.com", "minute", time.Minute, 1)
	r.Clock.Add(25 * time.Hour)
	sent := r.sent("ana@example.com")
	r.sent("bo@example.com")
	r.refused("ana@example.com", "minute", time.Minute, 1, func(s *store.Send) { s.App = "desk" })
	row := r.refused("ana@example.com", "minute", 50*time.Second, 1)
	r.refused("ana@example.com", "hour", 50*time.Minute, 1)
	b := r.loggedIn()
	rec := b.Get("/admin/sends/" + row.ID.String())
	contains(t, rec, `<a href="/admin/sends/`+sent.ID.String()+`">`, "refused by <b>minute</b>, 50 s left")
	lacks(t, rec, "<b>hour</b>", "desk")
	got := b.script(http.StatusOK, "GET", "/v1/admin/sends/"+row.ID.String(), "")
	related := got["related"].([]any)
	if len(related) != 2 || related[0].(map[string]any)["id"] != sent.ID.String() || related[1].(map[string]any)["id"] != row.ID.String() {
		t.Errorf("related: %v", related)
	}
}

func TestUnknownSends(t *testing.T) {
	r := newRig(t)
	id := r.sent("ana@example.com").ID.String()
	b := r.loggedIn()
	for _, path := range []string{"x", "0198f2b0-0000-7000-8000-000000000001", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), "%00", strings.Repeat("a", 3000)} {
		rec := b.Get("/v1/admin/sends/" + path)
		want(t, rec, http.StatusNotFound)
		if rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v", rec.Header())
		}
		contains(t, want(t, b.Get("/admin/sends/"+path), http.StatusNotFound), "No such send")
	}
	want(t, b.Get("/v1/admin/sends/"+strings.ToUpper(id)), http.StatusOK)
}

func TestSearchJSON(t *testing.T) {
	r := newRig(t)
	id := r.sent("ana@example.com").ID.String()
	r.refused("ana@example.com", "minute", time.Minute, 1)
	r.refused("bo@example.com", "minute", time.Minute, 1)
	b := r.browser()
	first := b.script(http.StatusOK, "POST", "/v1/admin/search?limit=1", `{"channel":"email","to":" Ana@EXAMPLE.com "}`)
	rest := b.script(http.StatusOK, "POST", "/v1/admin/search?cursor="+first["next"].(string), `{"channel":"email","to":"ana@example.com"}`)["sends"].([]any)
	if len(rest) != 1 || rest[0].(map[string]any)["id"] != id || len(first["sends"].([]any)) != 1 {
		t.Errorf("%v, then %v", first, rest)
	}
	for body, field := range map[string]string{
		`{"channel":"email","to":"ana@"}`: "to", `{"channel":"fax","to":"ana@example.com"}`: "channel", `{"to":"ana@example.com"}`: "channel", `{"channel":"email"}`: "to",
	} {
		if got := b.script(http.StatusUnprocessableEntity, "POST", "/v1/admin/search", body)["field"]; got != field {
			t.Errorf("%s: %v", body, got)
		}
	}
	b.script(http.StatusBadRequest, "POST", "/v1/admin/search", `{"channel":"email","to":"ana@example.com","x":1}`)
	b.script(http.StatusUnprocessableEntity, "POST", "/v1/admin/search?limit=0", `{"channel":"email","to":"ana@example.com"}`)
}
