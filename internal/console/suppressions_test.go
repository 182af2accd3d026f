package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/support"
)

type suppressionList struct {
	Suppressions, Lifted []map[string]any
	Next                 *string
}

// program posts as a script does.
func (b *browser) program(method, path, body string, status int) suppressionList {
	b.Helper()
	rec := b.Do(method, path, body, "Authorization", "Bearer "+consoletest.Token, "Content-Type", "application/json")
	want(b.T, rec, status)
	lacks(b.T, rec, "ana@example.com")
	if status >= 300 {
		return suppressionList{}
	}
	if status == http.StatusCreated {
		return suppressionList{Suppressions: []map[string]any{decode[map[string]any](b.T, rec.Body.String())}}
	}
	return decode[suppressionList](b.T, rec.Body.String())
}

const suppressions = "/v1/admin/suppressions"

func TestSuppressionsJSON(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	if got := b.program("GET", suppressions, "", 200); len(got.Suppressions) != 0 || got.Suppressions == nil || got.Next != nil {
		t.Errorf("%+v", got)
	}
	send := r.begin("ana@example.com").Send
	p, hash := r.recipient("ana@example.com")
	r.finish(send, store.Outcome{Status: store.Failed, Reason: "rejected", ProviderCode: "550 5.1.1", Refund: true, Suppress: store.SuppressAs{Cause: store.HardBounce, Address: p.Hash(r.codes.Vault.IndexKey), For: 720 * time.Hour}})
	r.Clock.Add(time.Second)
	added := b.program("POST", suppressions, `{"channel":"email","to":"bo@example.com","reason":"asked","for":3600}`, 201).Suppressions[0]
	for name, want := range map[string]any{
		"channel": "email", "to": "b•••@example.com", "app": nil, "reason": "manual", "detail": "asked", "send_id": nil, "by": "token",
		"since": "2026-03-04T14:02:21.118Z", "until": "2026-03-04T15:02:21.118Z", "active": true, "lifted_at": nil, "lifted_by": nil, "lifted_reason": nil,
	} {
		if added[name] != want {
			t.Errorf("%s: %v, want %v", name, added[name], want)
		}
	}
	list := b.program("GET", suppressions, "", 200).Suppressions
	if len(list) != 2 || list[0]["id"] != added["id"] || list[1]["reason"] != "hard_bounce" || list[1]["detail"] != "550 5.1.1" ||
		list[1]["send_id"] != send.ID.String() || list[1]["recipient"] != hash.String() || list[1]["app"] != "shop" || list[1]["by"] != nil {
		t.Errorf("%v", list)
	}
	first := b.program("GET", suppressions+"?limit=1", "", 200)
	if second := b.program("GET", suppressions+"?limit=1&cursor="+*first.Next, "", 200); second.Next != nil || second.Suppressions[0]["id"] != list[1]["id"] {
		t.Errorf("%+v", second)
	}
	if of := b.program("GET", suppressions+"?recipient="+hash.String(), "", 200).Suppressions; len(of) != 1 || of[0]["id"] != list[1]["id"] {
		t.Errorf("%v", of)
	}
	lifted := b.program("POST", suppressions+"/lift", `{"channel":"email","to":"ANA@example.com","reason":"mended"}`, 200).Lifted
	if len(lifted) != 1 || lifted[0]["id"] != list[1]["id"] || lifted[0]["active"] != false || lifted[0]["lifted_by"] != "token" || lifted[0]["lifted_reason"] != "mended" {
		t.Errorf("%v", lifted)
	}
	if again := b.program("POST", suppressions+"/lift", `{"channel":"email","to":"ana@example.com","reason":"mended"}`, 200).Lifted; len(again) != 0 || again == nil {
		t.Errorf("%v", again)
	}
	if active := b.program("GET", suppressions+"?state=active", "", 200).Suppressions; len(active) != 1 || active[0]["id"] != added["id"] {
		t.Errorf("%v", active)
	}
	story := b.Get("/v1/admin/sends/"+send.ID.String(), "Authorization", "Bearer "+consoletest.Token)
	contains(t, story, `"suppressions":[{"id":"`+lifted[0]["id"].(string))

	acts := b.Get("/v1/admin/acts", "Authorization", "Bearer "+consoletest.Token)
	contains(t, acts, `"what":"suppression.add"`, `"what":"suppression.lift"`, `"to":"a•••@example.com","recipient":"`+hash.String()+`"`, `"reason":"mended","outcome":"done","detail":"1"`, `"detail":"0"`, `"who":"token"`)
}

func TestSuppressionsAreAskedForRight(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	for path, bodies := range map[string]map[string]int{
		"": {
			`{"channel":"email","to":"ana@example.com"}`: 422, `{"channel":"email","to":"noone","reason":"x"}`: 422, `{"channel":"email","to":"ana@example.com","reason":"x","for":0}`: 422,
			`{"channel":"email","to":"ana@example.com","reason":"x","for":31622401}`: 422, `{"channel":"email","to":"ana@example.com","reason":"x","app":"nope"}`: 422,
			`{"channel":"email","to":"ana@example.com","reason":"` + strings.Repeat("x", 201) + `"}`: 422, `{"x":1}`: 400, `{`: 400,
			`{"channel":"email","to":"ana@example.com","reason":"x","for":9223372036854775807}`: 422,
		},
		"/lift": {`{"channel":"email","to":"ana@example.com"}`: 422, `{"channel":"email","to":"ana@example.com","reason":"x","for":1}`: 400, `{"channel":"email","to":"noone","reason":"x"}`: 422},
	} {
		for body, status := range bodies {
			b.program("POST", suppressions+path, body, status)
		}
	}
	in := r.loggedIn()
	for _, bad := range []string{"state=x", "state=all&state=all", "unknown=x", "limit=0", "limit=201", "cursor=x", "recipient=ana", "state=%zz"} {
		for _, path := range []string{"/admin/suppressions?", suppressions + "?"} {
			if rec := in.Get(path + bad); rec.Code != http.StatusUnprocessableEntity && rec.Code != http.StatusBadRequest {
				t.Errorf("%s%s: %d", path, bad, rec.Code)
			}
		}
	}
	for _, route := range [][2]string{{"GET", suppressions}, {"POST", suppressions}, {"POST", suppressions + "/lift"}} {
		want(t, b.Do(route[0], route[1], `{}`, "Content-Type", "application/json"), http.StatusUnauthorized)
	}
	for _, path := range []string{"/admin/suppressions", "/admin/suppressions/lift"} {
		want(t, in.Post(path, url.Values{}, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
		if to := r.browser().Post(path, url.Values{"to": {"ana@example.com"}}).Header().Get("Location"); !strings.HasPrefix(to, "/admin/login") {
			t.Errorf("%s without a session to %q", path, to)
		}
	}
	if list, _, err := r.Log.Suppressions(context.Background(), store.SuppressionFilter{Limit: 10}); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	r.Log.SetFault(func(string) sqlite.Fault { return sqlite.Down })
	want(t, in.Get("/admin/suppressions"), http.StatusServiceUnavailable)
	b.program("GET", suppressions, "", http.StatusServiceUnavailable)
	b.program("POST", suppressions, `{"channel":"email","to":"ana@example.com","reason":"x"}`, http.StatusServiceUnavailable)
	b.program("POST", suppressions+"/lift", `{"channel":"email","to":"ana@example.com","reason":"x"}`, http.StatusServiceUnavailable)
}

// From the page: suppress, see it, lift it, see who did.
func TestSuppressionsPage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	contains(t, b.Get("/admin/suppressions"), "Nobody is suppressed", `aria-current="true"`, `action="/admin/suppressions"`)
	add := url.Values{"channel": {"email"}, "to": {" ana@example.com "}, "days": {"2"}, "reason": {"<b>asked</b>"}}
	if to := b.Post("/admin/suppressions", add).Header().Get("Location"); to != "/admin/suppressions" {
		t.Fatalf("to %q", to)
	}
	_, hash := r.recipient("ana@example.com")
	page := b.Get("/admin/suppressions")
	contains(t, page, "a•••@example.com", "by hand · &lt;b&gt;asked&lt;/b&gt; · admin", "holds", "every app", "2026-03-06", "/admin?recipient="+hash.String(), `name="address" value="`+hash.String()+`"`)
	lacks(t, page, "ana@example.com", "style=", "<script>")
	for field, bad := range map[string]url.Values{
		"no address": {"channel": {"email"}, "to": {"noone@"}, "reason": {"x"}}, "Say why": {"channel": {"email"}, "to": {"bo@example.com"}},
		"no such app": {"channel": {"email"}, "to": {"bo@example.com"}, "reason": {"x"}, "app": {"nope"}}, "366 days": {"channel": {"email"}, "to": {"bo@example.com"}, "reason": {"x"}, "days": {"367"}},
	} {
		rec := b.Post("/admin/suppressions", bad)
		want(t, rec, http.StatusUnprocessableEntity)
		contains(t, rec, field, `role="alert"`)
		lacks(t, rec, "bo@example.com", "noone@")
	}
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
	contains(t, b.Get("/admin/suppressions?recipient="+hash.String()+"&state=all", "Accept-Language", "zh"), "停发名单", "已解除")
}

// A send that met a suppression opens with it, as one that met a pause does.
func TestStoryOfASuppressedSend(t *testing.T) {
	r := newRig(t)
	p, hash := r.recipient("ana@example.com")
	_, err := r.codes.Desk.Suppress(context.Background(), support.SuppressRequest{Channel: "email", To: p.Address(), Why: "asked by telephone", By: "mei"})
	r.Must(err)
	row := r.row("ana@example.com")
	begun, err := r.Log.Begin(context.Background(), store.Intent{
		Send: row, Address: hash, Purposes: []string{"login"}, TTL: 10 * time.Minute, Lease: 8 * time.Second,
		Verification: store.Verification{ID: "v", Nonce: make([]byte, 16), KeyID: "k", CodeLength: 6, Alphabet: "digits", MaxAttempts: 5},
	})
	r.Must(err)
	r.finish(begun.Send, store.Outcome{Status: store.Failed, Reason: store.ReasonSuppressed, Refund: true})
	other := r.begin("bo@example.com").Send
	r.finish(other, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	r.codes.Change(policy.Set{Purposes: r.codes.Terms().Purposes, Pauses: []policy.Pause{{Channel: recipient.Email, Reason: "the server moves"}}})
	b := r.loggedIn()
	contains(t, b.Get("/admin/sends/"+begun.Send.ID.String()), "Nothing was sent: since", "asked by telephone", "lift it at Suppressions", "not sent")
	contains(t, b.Get("/admin/sends/"+other.ID.String()), "paused by the configuration", "the server moves")
	contains(t, b.Get("/admin"), "suppressed", "paused", "did not count")
	_, err = r.Log.IngestProviderEvent(context.Background(), store.ProviderEvent{Send: r.sent("cy@example.com").ID, Kind: store.ProviderBounced, Provider: "postmark"}, store.SuppressAs{})
	r.Must(err)
	contains(t, b.Get("/admin"), "bounced later")
}
