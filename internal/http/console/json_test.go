package console

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// holds fails the test unless a row has these members.
func holds[V comparable](t *testing.T, row, members map[string]V) {
	t.Helper()
	for name, value := range members {
		servertest.Same(t, name, row[name], value)
	}
}

// A rule on failures refused the request, but its failures no longer count, so a new request would
// be admitted.
func TestRefusalByFailuresThatHaveLeft(t *testing.T) {
	r := newRig(t)
	terms := r.Svc.Policies()
	p := terms.Purposes["login"]
	p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 1, Window: time.Hour},
		quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 1, Window: time.Hour, Observe: true})
	terms.Purposes = map[string]policy.Purpose{"login": p}
	r.Svc.Change(terms)
	row := r.writeRefused("ana@example.com", "failures", time.Minute, 1)
	b := r.LoggedIn()
	rec := b.Get("/admin/sends/" + row.ID.String())
	contains(t, rec, "They can ask again now.")
	lacks(t, rec, "more than the recipient", `pips-name">failures`, "stricter")
	rules := b.Script(http.StatusOK, "GET", "/v1/admin/sends/"+row.ID.String(), "")["quota"].(map[string]any)["rules"].([]any)
	servertest.Same(t, "len(rules)", len(rules), 3)
}

// The page of a refusal without a verification shows the sends that led to it.
func TestRefusalShowsWhatLedToIt(t *testing.T) {
	r := newRig(t)
	r.writeRefused("ana@example.com", "minute", time.Minute, 1)
	r.Clock.Add(25 * time.Hour)
	sent := r.writeSent("ana@example.com")
	r.writeSent("bo@example.com")
	r.writeRefused("ana@example.com", "minute", time.Minute, 1, func(s *store.SendOrRefusal) { s.App = "desk" })
	row := r.writeRefused("ana@example.com", "minute", 50*time.Second, 1)
	r.writeRefused("ana@example.com", "hour", 50*time.Minute, 1)
	b := r.LoggedIn()
	rec := b.Get("/admin/sends/" + row.ID.String())
	contains(t, rec, `<a href="/admin/sends/`+sent.ID.String()+`">`, "refused by <b>minute</b>, 50 s left")
	lacks(t, rec, "refused by <b>hour</b>", "desk")
	got := b.Script(http.StatusOK, "GET", "/v1/admin/sends/"+row.ID.String(), "")
	related := got["related"].([]any)
	if len(related) != 2 || related[0].(map[string]any)["id"] != sent.ID.String() || related[1].(map[string]any)["id"] != row.ID.String() {
		t.Errorf("related: %v", related)
	}
}

func TestSearchJSON(t *testing.T) {
	r := newRig(t)
	id := r.writeSent("ana@example.com").ID.String()
	r.writeRefused("ana@example.com", "minute", time.Minute, 1)
	r.writeRefused("bo@example.com", "minute", time.Minute, 1)
	b := r.Browser()
	first := b.Script(http.StatusOK, "POST", "/v1/admin/search?limit=1", `{"channel":"email","to":" Ana@EXAMPLE.com "}`)
	next := "/v1/admin/search?cursor=" + first["next"].(string)
	rest := b.Script(http.StatusOK, "POST", next, `{"channel":"email","to":"ana@example.com"}`)["sends"].([]any)
	if len(rest) != 1 || rest[0].(map[string]any)["id"] != id || len(first["sends"].([]any)) != 1 {
		t.Errorf("%v, then %v", first, rest)
	}
}

func TestSearchJSONRefuses(t *testing.T) {
	b := newRig(t).LoggedIn()
	for body, want := range map[string]problem{
		`{"channel":"email","to":"ana@"}`:          {Field: "to", Reason: "no_domain"},
		`{"channel":"fax","to":"ana@example.com"}`: {Field: "channel", Reason: "unsupported"},
		`{"to":"ana@example.com"}`:                 {Field: "channel", Reason: "required"},
		`{"channel":"email"}`:                      {Field: "to", Reason: "required"},
	} {
		got := problemOf(t, b.Do(http.MethodPost, "/v1/admin/search", body, asScript...), server.InvalidField)
		got.Type = ""
		servertest.Same(t, body, got, want)
	}
	rec := b.Do(http.MethodPost, "/v1/admin/search", `{"channel":"email","to":"ana@example.com","x":1}`, asScript...)
	servertest.Same(t, "x", problemOf(t, rec, server.ProblemKind{Slug: "unknown-field", Status: http.StatusBadRequest}).Field, "x")
	rec = b.Do(http.MethodPost, "/v1/admin/search?limit=0", `{"channel":"email","to":"ana@example.com"}`, asScript...)
	servertest.Same(t, "limit=0", problemOf(t, rec, server.InvalidField).Field, "limit")
}

// asScript has the headers of a program's request.
var asScript = []string{"Content-Type", "application/json", "Authorization", "Bearer " + consoletest.Token}

// A send is found only by its ID as the service writes it, in small or capital letters.
func TestSendJSONNeedsTheExactID(t *testing.T) {
	r, b := loggedIn(t)
	id := r.writeSent("ana@example.com").ID.String()
	want(t, b.Get("/v1/admin/sends/"+strings.ToUpper(id)), http.StatusOK)
	for _, unknown := range []string{
		"x", "0198f2b0-0000-7000-8000-000000000001", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), "%00",
		strings.Repeat("a", 300),
	} {
		problemOf(t, b.Get("/v1/admin/sends/"+unknown), server.NotFound)
		contains(t, want(t, b.Get("/admin/sends/"+unknown), http.StatusNotFound), "No such send")
	}
	contains(t, want(t, b.Get("/admin/nope"), http.StatusNotFound), "No such page")
}

// The lists for scripts have the filters of the pages.
func TestListFiltersJSON(t *testing.T) {
	r := newRig(t)
	everyPage(r)
	b := r.Browser()
	for path, count := range map[string]int{
		"acts?what=suppression.add": 2, "acts?who=stranger": 0, "webhooks?state=given_up": 1, "webhooks?state=pending&app=shop": 2,
		"webhooks?app=other": 0, "webhooks?type=conversion.low": 0, "webhooks?recipient=" + strings.Repeat("ab", 16): 0, "prefixes?state=active": 1, "suppressions?state=active&limit=1": 1,
	} {
		name, _, _ := strings.Cut(strings.Replace(path, "webhooks", "events", 1), "?")
		servertest.Same(t, path, len(b.List(name, "/v1/admin/"+path)), count)
	}
}
