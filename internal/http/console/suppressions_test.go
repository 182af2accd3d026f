package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

const suppressions = "/v1/admin/suppressions"

// By script: one of a bounce and one by hand, listed and lifted, and recorded; a wrong request adds
// none.
func TestSuppressionsByScript(t *testing.T) {
	r, b := visited(t)
	send := r.begin("ana@example.com").Send
	_, hash := r.recipient("ana@example.com")
	r.finish(send, store.Outcome{
		Status: store.Failed, Reason: "rejected", ProviderCode: "550 5.1.1", Refund: true,
		Suppress: store.NewSuppression{Cause: store.CauseHardBounce, Address: hash, For: 720 * time.Hour},
	})
	r.Clock.Add(time.Second)
	const ask = `{"channel":"email","to":"bo@example.com","reason":"asked"`
	for _, rest := range []string{`,"for":0}`, `,"for":31622401}`, `,"for":9223372036854775807}`, `,"app":"nope"}`} {
		b.Script(http.StatusUnprocessableEntity, "POST", suppressions, ask+rest)
	}
	added := b.Script(http.StatusCreated, "POST", suppressions, ask+`,"for":3600}`)
	holds(t, added, map[string]any{"by": "token", "since": "2026-03-04T14:02:21.118Z", "until": "2026-03-04T15:02:21.118Z", "active": true})
	list := b.List("suppressions", suppressions)
	holds(t, list[0], map[string]any{"id": added["id"], "reason": "manual", "detail": "asked", "app": nil, "send_id": nil})
	holds(t, list[1], map[string]any{"reason": "hard_bounce", "detail": "550 5.1.1", "send_id": send.ID.String(), "app": "shop", "by": nil})
	lift := func() []any {
		t.Helper()
		ana := `{"channel":"email","to":"ANA@example.com","reason":"mended"}`
		return b.Script(http.StatusOK, "POST", suppressions+"/lift", ana)["lifted"].([]any)
	}
	holds(t, lift()[0].(map[string]any),
		map[string]any{"id": list[1]["id"], "active": false, "lifted_by": "token", "lifted_reason": "mended"})
	servertest.Same(t, "lifted again", len(lift()), 0)
	story := b.Script(http.StatusOK, "GET", "/v1/admin/sends/"+send.ID.String(), "")["suppressions"].([]any)
	holds(t, story[0].(map[string]any), map[string]any{"id": list[1]["id"], "lifted_by": "token"})
	r.Acts("token|suppression.add|done||b•••@example.com|asked", "token|suppression.lift|done|1|A•••@example.com|mended",
		"token|suppression.lift|done|0|A•••@example.com|mended")
	r.Break()
	b.Script(http.StatusServiceUnavailable, "POST", suppressions, ask+`}`)
	b.Script(http.StatusServiceUnavailable, "POST", suppressions+"/lift", ask+`}`)
}

// From the page: suppress, lift, see who did.
func TestSuppressionsByPage(t *testing.T) {
	r, b := loggedIn(t)
	_, hash := r.recipient("ana@example.com")
	post := func(path string, fields ...string) *httptest.ResponseRecorder {
		form := url.Values{"channel": {"email"}}
		for i := 0; i < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		return b.Post("/admin/suppressions"+path, form)
	}
	redirects(t, post("", "to", " ana@example.com ", "days", "2", "reason", "asked"), "/admin/suppressions")
	contains(t, b.Get("/admin/suppressions"), "2026-03-06", `name="address" value="`+hash.String()+`"`)
	want(t, post("/lift", "address", "x", "reason", "x"), http.StatusUnprocessableEntity)
	want(t, post("/lift", "address", hash.String(), "channel", "pigeon", "reason", "x"), http.StatusUnprocessableEntity)
	redirects(t, post("/lift", "address", hash.String(), "reason", "mended"), "/admin/suppressions")
	contains(t, b.Get("/admin/suppressions"), "Nobody is suppressed")
	contains(t, b.Get("/admin/suppressions?state=all&recipient="+hash.String()), "Lifted by <b>admin</b> at", "mended",
		"Show all recipients")
}

// The page of a send that a pause stopped names the pause that holds now.
func TestStoryOfAPausedSend(t *testing.T) {
	r := newRig(t)
	send := r.begin("bo@example.com").Send
	r.finish(send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	pauses := []policy.Pause{{Channel: recipient.Email, Reason: "the server moves"}}
	r.Svc.Change(policy.Set{Purposes: r.Svc.Terms().Purposes, Pauses: pauses})
	contains(t, r.LoggedIn().Get("/admin/sends/"+send.ID.String()), "paused by the configuration", "the server moves", "not sent")
}
