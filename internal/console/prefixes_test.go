package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// pausedPrefix has text messages go to a prefix without any coming back, and the log pause it.
func (r *rig) pausedPrefix(prefix string) store.PrefixPause {
	r.Helper()
	for n := range 5 {
		row := r.row(fmt.Sprintf("p%d@example.com", n))
		row.ID, row.Channel, row.To, row.Prefix, row.Country = r.id(), recipient.SMS, prefix+"•••21", prefix, "DE"
		begun, err := r.log.Begin(context.Background(), store.Intent{
			Send: row, Purposes: []string{"login"}, TTL: 10 * time.Minute, Lease: time.Minute,
			Verification: store.Verification{ID: "v" + row.ID.String(), KeyID: "k", CodeLength: 6, MaxAttempts: 5},
		})
		r.must(err)
		r.finish(begun.Send, store.Outcome{Status: store.Sent, Provider: "carrier"})
	}
	r.clock.Add(10 * time.Minute)
	started, err := r.log.PausePrefixes(context.Background(), store.PrefixWatch{Sends: 5, Approved: 10, Within: time.Hour, TTL: 10 * time.Minute, Pause: time.Hour})
	r.must(err)
	if len(started) != 1 {
		r.Fatalf("%+v", started)
	}
	return started[0]
}

// The page shows what rests and why, the overview points there, an operator lifts it with a reason, and the acts say so.
func TestPrefixesPage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	contains(t, b.Get("/admin/prefixes"), "Nothing is paused", `aria-current="true"`)
	lacks(t, b.Get("/admin/overview"), "/admin/prefixes?", "hardly any code came back")
	p := r.pausedPrefix("+49151")
	contains(t, b.Get("/admin/prefixes"), "49151", "DE", "shop", "5 sent, 0 entered", "paused", `value="`+p.ID.String()+`"`, "/admin?country=DE", "2026-03-04")
	contains(t, b.Get("/admin/overview"), "to one prefix rest", `href="/admin/prefixes"`)
	lacks(t, r.as(auth.Reader).Get("/admin/prefixes"), "<form class=\"lift\"")

	rec := b.Post("/admin/prefixes/lift", url.Values{"id": {p.ID.String()}, "reason": {" "}})
	want(t, rec, http.StatusUnprocessableEntity)
	contains(t, rec, "Say why", "49151")
	want(t, b.Post("/admin/prefixes/lift", url.Values{"id": {"x"}, "reason": {"y"}}), http.StatusUnprocessableEntity)
	want(t, b.Post("/admin/prefixes/lift", url.Values{"id": {r.id().String()}, "reason": {"y"}}), http.StatusNotFound)
	lift := url.Values{"id": {p.ID.String()}, "reason": {"ours, <b>ticket</b> 7"}}
	for range 2 { // the second time it had ended, and nothing is recorded
		want(t, b.Post("/admin/prefixes/lift", lift), http.StatusSeeOther)
	}
	contains(t, b.Get("/admin/prefixes"), "Nothing is paused")
	contains(t, b.Get("/admin/prefixes?state=all"), "lifted", "ours, &lt;b&gt;ticket&lt;/b&gt; 7", "49151", "admin")
	lacks(t, b.Get("/admin/overview"), "hardly any code came back")
	contains(t, b.Get("/admin/acts"), "lifted a pause of numbers", "49151", "ticket")
	acts, err := r.log.AuditEntries(context.Background(), store.AuditFilter{What: "prefix.lift", Limit: 9})
	if err != nil || len(acts) != 1 || acts[0].App != "shop" || acts[0].Role != "owner" {
		t.Errorf("%+v, %v", acts, err)
	}
}

func TestPrefixesJSON(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	auth := []string{"Authorization", "Bearer " + consoletest.Token, "Content-Type", "application/json"}
	type listJSON struct {
		Prefixes []map[string]any
		Next     *string
	}
	list := func(query string) listJSON {
		t.Helper()
		rec := b.Do("GET", "/v1/admin/prefixes"+query, "", auth...)
		want(t, rec, http.StatusOK)
		return decode[listJSON](t, rec.Body.String())
	}
	if got := list(""); got.Prefixes == nil || len(got.Prefixes) != 0 || got.Next != nil {
		t.Errorf("%+v", got)
	}
	first := r.pausedPrefix("+49151")
	second := r.pausedPrefix("+49152")
	page := list("?limit=1")
	if len(page.Prefixes) != 1 || page.Prefixes[0]["id"] != second.ID.String() || page.Next == nil {
		t.Fatalf("%+v", page)
	}
	page = list("?limit=1&cursor=" + url.QueryEscape(*page.Next))
	got := page.Prefixes[0]
	for name, value := range map[string]any{
		"id": first.ID.String(), "app": "shop", "country": "DE", "prefix": "+49151", "sends": 5.0, "approved": 0.0, "usual_percent": nil, "active": true,
		"lifted_at": nil, "lifted_by": nil, "lifted_reason": nil,
	} {
		if got[name] != value {
			t.Errorf("%s: %v, want %v", name, got[name], value)
		}
	}
	rec := b.Do("POST", "/v1/admin/prefixes/lift", `{"id":"`+first.ID.String()+`","reason":"ours"}`, auth...)
	want(t, rec, http.StatusOK)
	contains(t, rec, `"active":false`, `"lifted_by":"token"`, `"lifted_reason":"ours"`)
	if got := list("?state=active"); len(got.Prefixes) != 1 || got.Prefixes[0]["prefix"] != "+49152" {
		t.Errorf("%+v", got)
	}
	want(t, b.Do("POST", "/v1/admin/prefixes/lift", `{"id":"`+r.id().String()+`","reason":"ours"}`, auth...), http.StatusNotFound)
	want(t, b.Do("GET", "/v1/admin/prefixes?recipient=00", "", auth...), http.StatusUnprocessableEntity)
}

// The page of a send that a pause stopped says which, and what to do.
func TestVerdictOnAPausedPrefix(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	p := r.pausedPrefix("+49151")
	row := r.row("q@example.com")
	row.ID, row.Channel, row.To, row.Prefix, row.Country = r.id(), recipient.SMS, "+49 151•••21", "+49151", "DE"
	begun, err := r.log.Begin(context.Background(), store.Intent{
		Send: row, Purposes: []string{"login"}, TTL: 10 * time.Minute, Lease: time.Minute,
		Verification: store.Verification{ID: "v" + row.ID.String(), KeyID: "k", CodeLength: 6, MaxAttempts: 5},
	})
	r.must(err)
	r.finish(begun.Send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	path := "/admin/sends/" + row.ID.String()
	contains(t, b.Get(path), "49151", "5 sent, 0 entered", "It holds until", "have the code by mail", "have the code sent by mail")
	_, _, err = r.log.LiftPrefix(context.Background(), store.PrefixLifting{ID: p.ID, By: "mei", Why: "x"}, nil)
	r.must(err)
	contains(t, b.Get(path), "It was lifted at", "49151")
	contains(t, b.Get(path, "Accept-Language", "zh-CN"), "暂停发送短信", "已于")
}
