package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/records"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
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
	r.Must(r.Log.AddAuditEntry(context.Background(), a))
	return a
}

func TestActsAreListed(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	contains(t, b.Get("/v1/admin/acts", "Authorization", "Bearer "+consoletest.Token), `{"acts":[],"next":null}`)
	want(t, b.Login(consoletest.Password), http.StatusSeeOther)
	contains(t, b.Get("/admin/acts"), "logged in", "admin (owner)", "192.0.2.1/32")
	contains(t, b.Get("/admin/acts?who=stranger"), "Nothing has been done yet")
	r.Clock.Add(time.Second)
	first := r.acted()
	r.Clock.Add(time.Second)
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
	next := consoletest.Between(t, older, `<a href="/admin/acts?cursor=`, `"`)
	contains(t, b.Get("/admin/acts?cursor="+next+"&limit=1"), "li (operator)", "Newest")

	var got struct {
		Acts []map[string]any `json:"acts"`
		Next *string          `json:"next"`
	}
	rec := b.Get("/v1/admin/acts?what=account.add", "Authorization", "Bearer "+consoletest.Token)
	want(t, rec, http.StatusOK)
	r.Must(json.Unmarshal(rec.Body.Bytes(), &got))
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

// toldApps fills the log with an event of each state: arrived, tried and pending, given up, and one about an approval.
func toldApps(r *rig) (ids []string) {
	states := []store.AppEventEnd{
		{State: store.EventDelivered, Answer: "204"}, {State: store.EventPending, Answer: "forbidden address", After: 20 * time.Second},
		{State: store.EventGivenUp, Answer: "410"},
	}
	for i, end := range states {
		s := r.begin([]string{"nora@example.com", "lu@qq.com", "sam@example.net"}[i], func(s *store.Send) { s.Reference = "order-7" }).Send
		tell := store.NewEvent{ID: r.id(), Type: "send.failed", Test: i == 2}
		r.finish(s, store.Outcome{Status: store.Failed, Reason: "rejected", Event: tell})
		due, _, err := r.Log.AppEventsDue(context.Background(), time.Second, []store.Share{{App: "shop", Limit: 1}})
		r.Must(err)
		end.Held = store.Held{ID: due[0].ID, Attempt: due[0].Attempt}
		_, err = r.Log.AppEventEnded(context.Background(), end)
		r.Must(err)
		ids = append(ids, tell.ID.String())
		r.Clock.Add(time.Second)
	}
	v := r.begin("eve@example.com").Verification
	tell := store.NewEvent{ID: r.id(), Type: "verification.approved"}
	_, err := r.Log.Approve(context.Background(), v.ID, tell)
	r.Must(err)
	return append(ids, tell.ID.String())
}

func TestEventsJSON(t *testing.T) {
	r := newRig(t)
	ids := toldApps(r)
	b := r.browser()
	read := func(path string) (list struct {
		Events []records.Event
		Next   *string
	}) {
		t.Helper()
		rec := b.Get(path, "Authorization", "Bearer "+consoletest.Token)
		want(t, rec, http.StatusOK)
		lacks(t, rec, "nora@", "eve@", `"sealed"`)
		r.Must(json.Unmarshal(rec.Body.Bytes(), &list))
		return list
	}
	all := read("/v1/admin/webhooks").Events
	if len(all) != 4 || all[0].ID != ids[3] || all[3].ID != ids[0] {
		t.Fatalf("%+v", all)
	}
	approved, gone, waits := all[0], all[1], all[2]
	if approved.SendID != nil || approved.Reason != nil || approved.Answer != nil || approved.DueAt == nil || approved.EndedAt != nil || approved.Attempts != 0 || approved.State != "pending" {
		t.Errorf("%+v", approved)
	}
	if *gone.Answer != "410" || gone.State != "given_up" || !gone.Test || gone.DueAt != nil || gone.EndedAt == nil || *gone.Reason != "rejected" || *gone.Reference != "order-7" {
		t.Errorf("%+v", gone)
	}
	if *waits.Answer != "forbidden address" || waits.Attempts != 1 || waits.To != "l•••@qq.com" || waits.SendID == nil || waits.VerificationID == "" {
		t.Errorf("%+v", waits)
	}
	if page := read("/v1/admin/webhooks?limit=4"); page.Next != nil {
		t.Errorf("a page after the last one: %s", *page.Next)
	}
	var paged []string
	for path := "/v1/admin/webhooks?limit=2"; ; {
		page := read(path)
		for _, e := range page.Events {
			paged = append(paged, e.ID)
		}
		if page.Next == nil {
			break
		}
		path = "/v1/admin/webhooks?limit=2&cursor=" + *page.Next
	}
	if got := strings.Join(paged, " "); got != strings.Join([]string{ids[3], ids[2], ids[1], ids[0]}, " ") {
		t.Errorf("page by page: %s", got)
	}
	for query, n := range map[string]int{"?state=given_up": 1, "?state=pending&app=shop": 2, "?app=other": 0, "?state=&app=&cursor=&limit=": 4} {
		if got := len(read("/v1/admin/webhooks" + query).Events); got != n {
			t.Errorf("%s: %d, want %d", query, got, n)
		}
	}
	for _, query := range []string{"?state=lost", "?limit=0", "?limit=201", "?limit=x", "?cursor=1", "?cursor={" + ids[0] + "}", "?app=a&app=b", "?apps=a", "?app=%00", "?app=\u00e9", "?%zz"} {
		if rec := b.Get("/v1/admin/webhooks"+query, "Authorization", "Bearer "+consoletest.Token); rec.Code/100 != 4 {
			t.Errorf("%s: %d", query, rec.Code)
		}
	}
	want(t, b.Get("/v1/admin/webhooks"), http.StatusUnauthorized)
	r.Must(r.Log.Close())
	want(t, b.Get("/v1/admin/webhooks", "Authorization", "Bearer "+consoletest.Token), http.StatusServiceUnavailable)
}

func TestEventsPage(t *testing.T) {
	r := newRig(t)
	want(t, r.browser().Get("/admin/webhooks"), http.StatusSeeOther)
	b := r.loggedIn()
	contains(t, b.Get("/admin/webhooks"), "No event is kept")
	ids := toldApps(r)
	rec := b.Get("/admin/webhooks")
	want(t, rec, http.StatusOK)
	contains(t, rec, "send.failed", "verification.approved", "delivered", "given up", "forbidden address · again in 18 s", `aria-current="true">Webhooks`, "l•••@qq.com")
	lacks(t, rec, "<style", " style=", "nora@", ids[0])
	contains(t, b.Get("/admin/webhooks", "Accept-Language", "zh"), "forbidden address · 18 秒后重试", "已放弃")
	rec = b.Get("/admin/webhooks?state=given_up&app=shop")
	contains(t, rec, "410", `value="given_up" selected`, `value="shop"`)
	lacks(t, rec, "forbidden address", "again in")
	rec = b.Get("/admin/webhooks?limit=3")
	contains(t, rec, `href="/admin/webhooks?cursor=`+ids[1]+`&amp;limit=3"`)
	rec = b.Get("/admin/webhooks?limit=3&cursor=" + ids[1])
	contains(t, rec, `href="/admin/webhooks?limit=3"`)
	lacks(t, rec, `rel="next"`)
	if rec := b.Get("/admin/webhooks?state=lost"); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d", rec.Code)
	}
}

// pausedPrefix has text messages go to a prefix without any coming back, and the log pause it.
func (r *rig) pausedPrefix(prefix string) store.PrefixPause {
	r.Helper()
	for n := range 5 {
		row := r.row(fmt.Sprintf("p%d@example.com", n))
		row.ID, row.Channel, row.To, row.Prefix, row.Country = r.id(), recipient.SMS, prefix+"•••21", prefix, "DE"
		begun, err := r.Log.Begin(context.Background(), store.Intent{
			Send: row, Purposes: []string{"login"}, TTL: 10 * time.Minute, Lease: time.Minute,
			Verification: store.Verification{ID: "v" + row.ID.String(), KeyID: "k", CodeLength: 6, MaxAttempts: 5},
		})
		r.Must(err)
		r.finish(begun.Send, store.Outcome{Status: store.Sent, Provider: "carrier"})
	}
	r.Clock.Add(10 * time.Minute)
	started, err := r.Log.PausePrefixes(context.Background(), store.PrefixWatch{Sends: 5, Approved: 10, Within: time.Hour, TTL: 10 * time.Minute, Pause: time.Hour})
	r.Must(err)
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
	contains(t, b.Get("/admin/overview"), "One number range is paused", `href="/admin/prefixes"`)
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
	acts, err := r.Log.AuditEntries(context.Background(), store.AuditFilter{What: "prefix.lift", Limit: 9})
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
	begun, err := r.Log.Begin(context.Background(), store.Intent{
		Send: row, Purposes: []string{"login"}, TTL: 10 * time.Minute, Lease: time.Minute,
		Verification: store.Verification{ID: "v" + row.ID.String(), KeyID: "k", CodeLength: 6, MaxAttempts: 5},
	})
	r.Must(err)
	r.finish(begun.Send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	path := "/admin/sends/" + row.ID.String()
	contains(t, b.Get(path), "49151", "5 sent, 0 entered", "It holds until", "have the code by mail", "have the code sent by mail")
	_, _, err = r.Log.LiftPrefix(context.Background(), store.PrefixLifting{ID: p.ID, By: "mei", Why: "x"}, nil)
	r.Must(err)
	contains(t, b.Get(path), "It was lifted at", "49151")
	contains(t, b.Get(path, "Accept-Language", "zh-CN"), "暂停发送短信", "已于")
}
