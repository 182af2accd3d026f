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
	"sendcode/internal/console/explain"
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
	r, b := visited(t)
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
	contains(t, page, "a•••@example.com", "mei (operator)", "&lt;b&gt;ticket 7&lt;/b&gt;", "failed", "192.0.2.1/32", `href="/admin/sends/`+send.ID.String(), `aria-current="true"`)
	only := b.Get("/admin/acts?who=li&limit=1")
	contains(t, only, "li (operator)", "All acts")
	lacks(t, only, "mei (operator)")
	older := b.Get("/admin/acts?limit=1").Body.String()
	next := consoletest.Between(t, older, `<a href="/admin/acts?cursor=`, `"`)
	contains(t, b.Get("/admin/acts?cursor="+next+"&limit=1"), "li (operator)", "Newest")

	acts := b.list("acts", "/v1/admin/acts?what=account.add")
	holds(t, acts[0], map[string]any{
		"id": second.ID.String(), "who": "li", "role": "operator", "what": "account.add", "target": "mei", "outcome": "failed", "detail": "limiter",
		"ends": first.ID.String(), "to": nil, "recipient": nil, "app": nil, "reason": nil, "network": nil, "at": "2026-03-04T14:02:22.118Z",
	})
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
		r.OK(r.Log.AppEventEnded(context.Background(), end))
		ids = append(ids, tell.ID.String())
		r.Clock.Add(time.Second)
	}
	v := r.begin("eve@example.com").Verification
	tell := store.NewEvent{ID: r.id(), Type: "verification.approved"}
	r.OK(r.Log.Approve(context.Background(), v.ID, tell))
	return append(ids, tell.ID.String())
}

func TestEvents(t *testing.T) {
	r, b := loggedIn(t)
	contains(t, b.Get("/admin/webhooks"), "No event is kept")
	ids := toldApps(r)
	all := b.list("events", "/v1/admin/webhooks")
	holds(t, all[0], map[string]any{"id": ids[3], "send_id": nil, "reason": nil, "answer": nil, "ended_at": nil, "attempts": 0.0, "state": "pending"})
	holds(t, all[1], map[string]any{"answer": "410", "state": "given_up", "test": true, "due_at": nil, "reason": "rejected", "reference": "order-7"})
	holds(t, all[2], map[string]any{"answer": "forbidden address", "attempts": 1.0, "to": "l•••@qq.com"})
	if all[0]["due_at"] == nil || all[1]["ended_at"] == nil || all[2]["send_id"] == nil || all[2]["verification_id"] == "" {
		t.Errorf("%v", all)
	}
	for query, n := range map[string]int{"?state=given_up": 1, "?state=pending&app=shop": 2, "?app=other": 0} {
		if got := len(b.list("events", "/v1/admin/webhooks"+query)); got != n {
			t.Errorf("%s: %d, want %d", query, got, n)
		}
	}
	rec := b.Get("/admin/webhooks")
	contains(t, rec, "send.failed", "verification.approved", "delivered", "given up", "forbidden address · again in 18 s", `aria-current="true">Webhooks`, "l•••@qq.com")
	lacks(t, rec, "<style", " style=", "nora@", ids[0])
	rec = b.Get("/admin/webhooks?state=given_up&app=shop")
	contains(t, rec, "410", `value="given_up" selected`, `value="shop"`)
	lacks(t, rec, "forbidden address", "again in")
	rec = b.Get(linkIn(b.Get("/admin/webhooks?limit=3").Body.String(), "Older"))
	contains(t, rec, `href="/admin/webhooks?limit=3"`, "n•••@example.com")
	lacks(t, rec, `rel="next"`, "l•••@qq.com")
}

// texted makes a send a text message to a German number with a prefix.
func texted(prefix string) func(*store.Send) {
	return func(s *store.Send) {
		s.Channel, s.To, s.Prefix, s.Country = recipient.SMS, prefix+"•••21", prefix, "DE"
	}
}

// pausedPrefix sends text messages to a prefix, none of whose codes is entered, and has the log pause it.
func (r *rig) pausedPrefix(prefix string) store.PrefixPause {
	r.Helper()
	for n := range 5 {
		r.sent(fmt.Sprintf("p%d@example.com", n), texted(prefix))
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
	r, b := loggedIn(t)
	contains(t, b.Get("/admin/prefixes"), "Nothing is paused", `aria-current="true"`)
	lacks(t, b.Get("/admin/overview"), "/admin/prefixes?", "hardly any code came back")
	p := r.pausedPrefix("+49151")
	contains(t, b.Get("/admin/prefixes"), "49151", "DE", "shop", "5 sent, 0 entered", "paused", `value="`+p.ID.String()+`"`, "/admin?country=DE", "2026-03-04")
	contains(t, b.Get("/admin/overview"), "One number range is paused", `href="/admin/prefixes"`)
	lacks(t, r.as(auth.Reader).Get("/admin/prefixes"), "<form class=\"lift\"")

	contains(t, b.Post("/admin/prefixes/lift", url.Values{"id": {p.ID.String()}, "reason": {" "}}), "Say why", "49151")
	want(t, b.Post("/admin/prefixes/lift", url.Values{"id": {"x"}, "reason": {"y"}}), http.StatusUnprocessableEntity)
	want(t, b.Post("/admin/prefixes/lift", url.Values{"id": {r.id().String()}, "reason": {"y"}}), http.StatusNotFound)
	lift := url.Values{"id": {p.ID.String()}, "reason": {"ours, <b>ticket</b> 7"}}
	for range 2 { // the second time it had ended, and nothing is recorded
		want(t, b.Post("/admin/prefixes/lift", lift), http.StatusSeeOther)
	}
	contains(t, b.Get("/admin/prefixes?state=all"), "lifted", "ours, &lt;b&gt;ticket&lt;/b&gt; 7", "49151", "admin")
	lacks(t, b.Get("/admin/overview"), "hardly any code came back")
	contains(t, b.Get("/admin/acts"), "lifted a pause of numbers", "49151", "ticket")
	if acts := r.Entries("prefix.lift"); len(acts) != 1 || acts[0].App != "shop" || acts[0].Role != "owner" {
		t.Errorf("%+v", acts)
	}
}

// The page of a send that a pause stopped says which, and what to do; a script lifts the pause.
func TestVerdictOnAPausedPrefix(t *testing.T) {
	r, b := loggedIn(t)
	p := r.pausedPrefix("+49151")
	other := r.pausedPrefix("+49152")
	send := r.begin("q@example.com", texted("+49151")).Send
	r.finish(send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	path := explain.SendAddress(send.ID)
	contains(t, b.Get(path), "49151", "5 sent, 0 entered", "It holds until", "have the code by mail", "have the code sent by mail")
	holds(t, b.list("prefixes", "/v1/admin/prefixes")[1], map[string]any{
		"id": p.ID.String(), "app": "shop", "country": "DE", "prefix": "+49151", "sends": 5.0, "approved": 0.0, "usual_percent": nil, "active": true,
		"lifted_at": nil, "lifted_by": nil, "lifted_reason": nil,
	})
	holds(t, b.script(http.StatusOK, "POST", "/v1/admin/prefixes/lift", `{"id":"`+p.ID.String()+`","reason":"ours"}`),
		map[string]any{"active": false, "lifted_by": "token", "lifted_reason": "ours"})
	if active := b.list("prefixes", "/v1/admin/prefixes?state=active"); len(active) != 1 || active[0]["id"] != other.ID.String() {
		t.Errorf("%v", active)
	}
	contains(t, b.Get(path), "It was lifted at", "49151")
}
