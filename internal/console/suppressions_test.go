package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

const suppressions = "/v1/admin/suppressions"

func TestSuppressionsJSON(t *testing.T) {
	r, b := visited(t)
	send := r.begin("ana@example.com").Send
	_, hash := r.recipient("ana@example.com")
	r.finish(send, store.Outcome{Status: store.Failed, Reason: "rejected", ProviderCode: "550 5.1.1", Refund: true, Suppress: store.SuppressAs{Cause: store.HardBounce, Address: hash, For: 720 * time.Hour}})
	r.Clock.Add(time.Second)
	added := b.script(http.StatusCreated, "POST", suppressions, `{"channel":"email","to":"bo@example.com","reason":"asked","for":3600}`)
	holds(t, added, map[string]any{
		"channel": "email", "to": "b•••@example.com", "app": nil, "reason": "manual", "detail": "asked", "send_id": nil, "by": "token",
		"since": "2026-03-04T14:02:21.118Z", "until": "2026-03-04T15:02:21.118Z", "active": true, "lifted_at": nil, "lifted_by": nil, "lifted_reason": nil,
	})
	list := b.list("suppressions", suppressions)
	bounced := map[string]any{"reason": "hard_bounce", "detail": "550 5.1.1", "send_id": send.ID.String(), "recipient": hash.String(), "app": "shop", "by": nil}
	holds(t, list[0], map[string]any{"id": added["id"]})
	holds(t, list[1], bounced)
	if of := b.list("suppressions", suppressions+"?recipient="+hash.String()); len(of) != 1 || of[0]["id"] != list[1]["id"] {
		t.Errorf("%v", of)
	}
	lift := func() []any {
		t.Helper()
		return b.script(http.StatusOK, "POST", suppressions+"/lift", `{"channel":"email","to":"ANA@example.com","reason":"mended"}`)["lifted"].([]any)
	}
	holds(t, lift()[0].(map[string]any), map[string]any{"id": list[1]["id"], "active": false, "lifted_by": "token", "lifted_reason": "mended"})
	if again := lift(); len(again) != 0 {
		t.Errorf("%v", again)
	}
	if active := b.list("suppressions", suppressions+"?state=active"); len(active) != 1 || active[0]["id"] != added["id"] {
		t.Errorf("%v", active)
	}
	story := b.script(http.StatusOK, "GET", "/v1/admin/sends/"+send.ID.String(), "")["suppressions"].([]any)
	holds(t, story[0].(map[string]any), map[string]any{"id": list[1]["id"], "lifted_by": "token"})
	acts := b.list("acts", "/v1/admin/acts")
	holds(t, acts[0], map[string]any{"what": "suppression.lift", "detail": "0"})
	holds(t, acts[1], map[string]any{"what": "suppression.lift", "to": "A•••@example.com", "recipient": hash.String(), "reason": "mended", "outcome": "done", "detail": "1", "who": "token"})
	holds(t, acts[2], map[string]any{"what": "suppression.add"})
}

func TestSuppressionsAreAskedForRight(t *testing.T) {
	r := newRig(t)
	b, in := r.browser(), r.loggedIn()
	const ask = `{"channel":"email","to":"bo@example.com","reason":"x"`
	for rest, status := range map[string]int{`,"for":0}`: 422, `,"for":31622401}`: 422, `,"for":9223372036854775807}`: 422, `,"app":"nope"}`: 422, `,"x":1}`: 400} {
		b.script(status, "POST", suppressions, ask+rest)
	}
	b.script(http.StatusBadRequest, "POST", suppressions+"/lift", ask+`,"for":1}`)
	if list := b.list("suppressions", suppressions); len(list) != 0 {
		t.Errorf("%v", list)
	}
	r.Break()
	want(t, in.Get("/admin/suppressions"), http.StatusServiceUnavailable)
	b.script(http.StatusServiceUnavailable, "POST", suppressions, ask+`}`)
	b.script(http.StatusServiceUnavailable, "POST", suppressions+"/lift", ask+`}`)
}

// From the page: suppress, see it, lift it, see who did.
func TestSuppressionsPage(t *testing.T) {
	r, b := loggedIn(t)
	contains(t, b.Get("/admin/suppressions"), "Nobody is suppressed", `aria-current="true"`, `action="/admin/suppressions"`)
	add := url.Values{"channel": {"email"}, "to": {" ana@example.com "}, "days": {"2"}, "reason": {"<b>asked</b>"}}
	redirects(t, b.Post("/admin/suppressions", add), "/admin/suppressions")
	_, hash := r.recipient("ana@example.com")
	page := b.Get("/admin/suppressions")
	contains(t, page, "a•••@example.com", "by hand · &lt;b&gt;asked&lt;/b&gt; · admin", "holds", "every app", "2026-03-06", "/admin?recipient="+hash.String(), `name="address" value="`+hash.String()+`"`)
	lacks(t, page, "ana@example.com", "style=", "<script>")
	rec := b.Post("/admin/suppressions", url.Values{"channel": {"email"}, "to": {"bo@example.com"}, "reason": {"x"}, "days": {"367"}})
	want(t, rec, http.StatusUnprocessableEntity)
	contains(t, rec, "366 days", `role="alert"`)
	lacks(t, rec, "bo@example.com")
	lift := url.Values{"channel": {"email"}, "address": {hash.String()}, "reason": {""}}
	contains(t, b.Post("/admin/suppressions/lift", lift), "Say why")
	for _, forged := range []url.Values{{"channel": {"email"}, "address": {"x"}, "reason": {"x"}}, {"channel": {"pigeon"}, "address": {hash.String()}, "reason": {"x"}}} {
		want(t, b.Post("/admin/suppressions/lift", forged), http.StatusUnprocessableEntity)
	}
	lift.Set("reason", "mended")
	want(t, b.Post("/admin/suppressions/lift", lift), http.StatusSeeOther)
	contains(t, b.Get("/admin/suppressions"), "Nobody is suppressed", "state=all")
	contains(t, b.Get("/admin/suppressions?state=all&recipient="+hash.String()), "Lifted by <b>admin</b> at", "mended", "Show all recipients", "Show only those that hold now")
	contains(t, b.Get("/admin/acts"), "suppressed", "lifted a suppression", "mended")
}

// The page of a send that a pause stopped names the pause that holds now, and the list what a provider told of a send.
func TestStoryOfAPausedSend(t *testing.T) {
	r := newRig(t)
	send := r.begin("bo@example.com").Send
	r.finish(send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	r.codes.Change(policy.Set{Purposes: r.codes.Terms().Purposes, Pauses: []policy.Pause{{Channel: recipient.Email, Reason: "the server moves"}}})
	r.OK(r.Log.IngestProviderEvent(r.Context(), store.ProviderEvent{Send: r.sent("cy@example.com").ID, Kind: store.ProviderBounced, Provider: "postmark"}, store.SuppressAs{}))
	b := r.loggedIn()
	contains(t, b.Get("/admin/sends/"+send.ID.String()), "paused by the configuration", "the server moves", "not sent")
	contains(t, b.Get("/admin"), "paused", "did not count", "bounced later")
}
