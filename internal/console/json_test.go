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

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

type list struct {
	Sends []map[string]any `json:"sends"`
	Next  *string          `json:"next"`
}

func (b *browser) list(path string) list {
	b.Helper()
	rec := b.Get(path, "Authorization", "Bearer "+consoletest.Token)
	want(b.T, rec, http.StatusOK)
	return decode[list](b.T, rec.Body.String())
}

func decode[V any](t *testing.T, body string) V {
	t.Helper()
	var v V
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// members are those of DESIGN.md, section 3, and no others.
var members = []string{"app", "at", "attempts", "blocked_by", "channel", "count", "id", "provider", "provider_code", "purpose", "reason",
	"recipient", "reference", "retry_after", "status", "to", "took_ms", "verification_id"}

func TestListJSON(t *testing.T) {
	r := newRig(t)
	sent := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" })
	refused := r.refused("ana@example.com", "minute", 41713*time.Millisecond, 3)
	got := r.browser().list("/v1/admin/sends")
	if len(got.Sends) != 2 || got.Next != nil {
		t.Fatalf("%+v", got)
	}
	_, hash := r.recipient("ana@example.com")
	for i, is := range []map[string]any{
		{"id": refused.ID.String(), "verification_id": nil, "at": "2026-03-04T14:02:20.302Z", "channel": "email", "to": "a•••@example.com",
			"recipient": hash.String(), "purpose": "login", "app": "shop", "status": "refused", "reason": nil, "blocked_by": "minute",
			"retry_after": 42.0, "count": 3.0, "attempts": 0.0, "provider": nil, "provider_code": nil, "took_ms": nil, "reference": nil},
		{"id": sent.ID.String(), "verification_id": sent.VerificationID, "at": "2026-03-04T14:02:20.118Z", "channel": "email", "to": "a•••@example.com",
			"recipient": hash.String(), "purpose": "login", "app": "shop", "status": "sent", "reason": nil, "blocked_by": nil,
			"retry_after": nil, "count": 1.0, "attempts": 1.0, "provider": "mx1.example.net", "provider_code": "250 2.0.0", "took_ms": 184.0, "reference": "order-7"},
	} {
		if !maps.Equal(got.Sends[i], is) {
			t.Errorf("row %d:\n%v\nwant\n%v", i, got.Sends[i], is)
		}
		if names := slices.Sorted(maps.Keys(got.Sends[i])); !slices.Equal(names, members) {
			t.Errorf("members %v", names)
		}
	}
	empty := r.browser().Get("/v1/admin/sends?status=failed", "Authorization", "Bearer "+consoletest.Token)
	if got := strings.TrimSpace(empty.Body.String()); got != `{"sends":[],"next":null}` {
		t.Errorf("empty: %s", got)
	}
}

func TestSendJSON(t *testing.T) {
	r := newRig(t)
	begun := r.begin("ana@example.com", func(s *store.Send) { s.Observed = []string{"office", "stricter"} })
	r.finish(begun.Send, store.Outcome{Status: store.Sent, Provider: "mx1", ProviderCode: "250 2.0.0", Took: 400 * time.Microsecond})
	for range 2 {
		_, _, _, err := r.Log.Attempt(context.Background(), begun.Verification.ID)
		r.Must(err)
	}
	r.refused("ana@example.com", "minute", 30*time.Second, 1)
	rec := r.browser().Get("/v1/admin/sends/"+begun.Send.ID.String(), "Authorization", "Bearer "+consoletest.Token)
	want(t, rec, http.StatusOK)
	got := decode[map[string]any](t, rec.Body.String())
	for _, name := range members {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if got["took_ms"] != 1.0 || got["number"] != 1.0 || got["finished_at"] != "2026-03-04T14:02:20.118Z" || got["network"] != "203.0.113.0/24" {
		t.Errorf("%v", got)
	}
	if observed := got["observed"].([]any); !slices.Equal(observed, []any{"office", "stricter"}) {
		t.Errorf("observed: %v", observed)
	}
	v := got["verification"].(map[string]any)
	if v["status"] != "pending" || v["attempts"] != 2.0 || v["max_attempts"] != 5.0 || v["expires_at"] != "2026-03-04T14:12:20.118Z" || v["approved_at"] != nil {
		t.Errorf("verification: %v", v)
	}
	if related := got["related"].([]any); len(related) != 2 || related[1].(map[string]any)["status"] != "refused" {
		t.Errorf("related: %v", related)
	}
	q := got["quota"].(map[string]any)
	if q["allowed"] != false || q["retry_after"] != 60.0 || q["blocked_by"] != "minute" || q["retry_at"] != "2026-03-04T14:03:21.000Z" || len(q["rules"].([]any)) != 3 {
		t.Errorf("quota: %v", q)
	}
	hour := q["rules"].([]any)[1].(map[string]any)
	if !maps.Equal(hour, map[string]any{"name": "hour", "limit": 5.0, "window": 3600.0, "remaining": 4.0, "reset_after": 3600.0}) {
		t.Errorf("rule: %v", hour)
	}
	verdict := got["verdict"].(map[string]any)
	if verdict["what"] != "Accepted by mx1 at 2026-03-04 14:02:20 UTC (250 2.0.0)." || !strings.HasPrefix(verdict["next"].(string), "Ask them to check spam") {
		t.Errorf("verdict: %v", verdict)
	}
	if strings.Contains(rec.Body.String(), "sealed") || strings.Contains(rec.Body.String(), "nonce") {
		t.Errorf("too much is told: %s", rec.Body)
	}
}

func TestSendJSONWithoutItsPolicy(t *testing.T) {
	r := newRig(t)
	row := r.refused("ana@example.com", "minute", time.Minute, 1, func(s *store.Send) { s.Purpose = "gone" })
	b := r.loggedIn()
	rec := b.Get("/v1/admin/sends/" + row.ID.String())
	want(t, rec, http.StatusOK)
	if got := decode[map[string]any](t, rec.Body.String()); got["quota"] != nil || got["verification"] != nil || len(got["observed"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	rec = b.Get("/admin/sends/" + row.ID.String())
	want(t, rec, http.StatusOK)
	contains(t, rec, "no longer configured")
}

// A send that rules on trial would have refused says so, in both languages; others do not mention them.
func TestSendShowsRulesOnTrial(t *testing.T) {
	r := newRig(t)
	tried := r.sent("ana@example.com", func(s *store.Send) { s.Observed = []string{"office", "stricter"} })
	other := r.sent("bo@example.com")
	b := r.loggedIn()
	contains(t, b.Get("/admin/sends/"+tried.ID.String()), "<dt>On trial, would refuse</dt><dd>office, stricter</dd>")
	contains(t, b.Get("/admin/sends/"+tried.ID.String(), "Accept-Language", "zh-CN"), "<dt>试行中、本会拒绝</dt><dd>office，stricter</dd>")
	lacks(t, b.Get("/admin/sends/"+other.ID.String()), "On trial")
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
	rules := decode[map[string]any](t, b.Get("/v1/admin/sends/"+row.ID.String()).Body.String())["quota"].(map[string]any)["rules"].([]any)
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
	got := decode[map[string]any](t, b.Get("/v1/admin/sends/"+row.ID.String()).Body.String())
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
		rec = b.Get("/admin/sends/" + path)
		want(t, rec, http.StatusNotFound)
		contains(t, rec, "No such send")
	}
	want(t, b.Get("/v1/admin/sends/"+strings.ToUpper(id)), http.StatusOK)
}

func TestSearchJSON(t *testing.T) {
	r := newRig(t)
	id := r.sent("ana@example.com").ID.String()
	other := r.refused("ana@example.com", "minute", time.Minute, 1).ID.String()
	r.refused("bo@example.com", "minute", time.Minute, 1)
	b := r.browser()
	search := func(path, body string) list {
		rec := b.Do(http.MethodPost, path, body, "Content-Type", "application/json; charset=utf-8", "Authorization", "Bearer "+consoletest.Token)
		want(t, rec, http.StatusOK)
		return decode[list](t, rec.Body.String())
	}
	got := search("/v1/admin/search", `{"channel":"email","to":" Ana@EXAMPLE.com "}`)
	if len(got.Sends) != 2 || got.Sends[0]["id"] != other || got.Sends[1]["id"] != id {
		t.Errorf("%v", got)
	}
	got = search("/v1/admin/search?limit=1", `{"channel":"email","to":"ana@example.com"}`)
	if len(got.Sends) != 1 || got.Next == nil {
		t.Fatalf("%v", got)
	}
	got = search("/v1/admin/search?status=sent&cursor="+*got.Next, `{"channel":"email","to":"ana@example.com"}`)
	if len(got.Sends) != 1 || got.Sends[0]["id"] != id {
		t.Errorf("%v", got)
	}
}

func TestSearchJSONRefuses(t *testing.T) {
	b := newRig(t).browser()
	for _, c := range []struct {
		media, body string
		status      int
		field       string
	}{
		{"application/json", `{"channel":"email","to":"ana@"}`, 422, "to"},
		{"application/json", `{"channel":"fax","to":"ana@example.com"}`, 422, "channel"},
		{"application/json", `{"to":"ana@example.com"}`, 422, "channel"},
		{"application/json", `{"channel":"email"}`, 422, "to"},
		{"application/json", `{"channel":1,"to":"ana@example.com"}`, 422, "channel"},
		{"application/json", `{"channel":"email","to":"ana@example.com\r\nBcc: x@example.com"}`, 422, "to"},
		{"application/json", `{"channel":"email","to":"ana@example.com","x":1}`, 400, "x"},
		{"application/json", `{"channel":"email","to":"ana@example.com"} {}`, 400, ""},
		{"application/json", `{"channel":`, 400, ""},
		{"application/json", ``, 400, ""},
		{"application/json", `null`, 400, ""},
		{"application/json", `[]`, 400, ""},
		{"application/json", `{"to":"` + strings.Repeat("x", 20_000) + `"}`, 413, ""},
		{"text/plain", `{"channel":"email","to":"ana@example.com"}`, 415, ""},
		{"", `{"channel":"email","to":"ana@example.com"}`, 415, ""},
	} {
		rec := b.Do(http.MethodPost, "/v1/admin/search", c.body, "Content-Type", c.media, "Authorization", "Bearer "+consoletest.Token)
		if rec.Code != c.status || c.field != "" && !strings.Contains(rec.Body.String(), `"field":"`+c.field+`"`) {
			t.Errorf("%.60s: %d %s", c.body, rec.Code, rec.Body)
		}
		lacks(t, rec, "ana@")
	}
	want(t, b.Do(http.MethodPost, "/v1/admin/search?limit=0", `{"channel":"email","to":"ana@example.com"}`, "Content-Type", "application/json", "Authorization", "Bearer "+consoletest.Token), http.StatusUnprocessableEntity)
}

// Who asks for a status that there is none of is told those that there are.
func TestStatusesAreNamed(t *testing.T) {
	rec := newRig(t).as(auth.Reader).Get("/v1/admin/sends?status=lost")
	want(t, rec, http.StatusUnprocessableEntity)
	for _, s := range statuses {
		contains(t, rec, " "+string(s))
	}
}
