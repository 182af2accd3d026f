package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// The page of a send that a pause stopped shows the pause that applies now.
func TestSendPageShowsThePause(t *testing.T) {
	r := newRig(t)
	send := r.begin("bo@example.com").Send
	r.finish(send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	pauses := []policy.Pause{{Channel: recipient.Email, Reason: "the server moves"}}
	r.Svc.Change(policy.Set{Purposes: r.Svc.Policies().Purposes, Pauses: pauses})
	contains(t, r.LoggedIn().Get("/admin/sends/"+send.ID.String()), "Nothing was sent: such messages were paused.", "the server moves", "not sent")
}

// If there is nothing to do, no action is highlighted.
func TestFirstActionFollowsTheVerdict(t *testing.T) {
	r := newRig(t)
	s := r.writeSent("ana@example.com")
	b := r.LoggedIn()
	page := explain.SendPageAddress(s.ID)
	contains(t, b.Get(page), `<div class="buttons">`, "?do=resend#actions")
	r.Must(r.Store.Check(t.Context(), storetest.Right(s.VerificationID)))
	contains(t, b.Get(page), `<div class="buttons settled">`)
}

func TestSuppressionForms(t *testing.T) {
	r, b := loggedIn(t)
	const page, all = "/admin/suppressions", "/admin/suppressions?state=all"
	_, hash := r.recipient("bo@example.com")
	form := url.Values{"channel": {"email"}, "to": {" bo@example.com "}, "days": {"2"}, "reason": {"asked"}}
	of := page + "?done=suppression.%s&recipient=" + hash.String() + "&state=all"
	redirects(t, b.Post(page, form), fmt.Sprintf(of, "add"))
	reads(t, b.Get(page), "b•••@example.com every app ‖ holds by hand · asked · admin", "Until 6 Mar")
	contains(t, b.Get(page), `title="2026-03-06 14:02:20 UTC"`)
	contains(t, b.Get(page), `action="/admin/suppressions/lift"`, hash.String())
	lacks(t, r.As("reader").Get(page), `action="`+page)

	lift := url.Values{"channel": {"email"}, "address": {"x"}, "reason": {"mended"}}
	contains(t, want(t, b.Post(page+"/lift", lift), http.StatusUnprocessableEntity), "This form does not come from the list of suppressions: open the list again.")
	lift.Set("address", hash.String())
	lift.Set("channel", "pigeon")
	contains(t, want(t, b.Post(page+"/lift", lift), http.StatusUnprocessableEntity), "This form does not come from the list of suppressions: open the list again.")
	lift.Set("channel", "email")
	redirects(t, b.Post(page+"/lift", lift), fmt.Sprintf(of, "lift"))
	reads(t, b.Get(page), "Nobody is suppressed.")
	reads(t, b.Get(all+"&recipient="+hash.String()), "– lifted by hand · asked · admin Lifted by admin at 2026-03-04", ": mended")
	r.Unlogged("bo@example.com")
	r.WantActs(
		act{Who: "admin", What: auth.ActionSuppress, Outcome: store.AuditDone, To: "b•••@example.com", Reason: "asked"},
		act{Who: "test", What: "account.add", Outcome: store.AuditDone}, // adds the account of the reader
		act{Who: "admin", What: auth.ActionLiftSuppression, Outcome: store.AuditDone, Detail: "1", To: "b•••@example.com", Reason: "mended"})
}

// A form with a mistake keeps what was typed, without the recipient.
func TestSuppressionFormKeepsWhatWasTyped(t *testing.T) {
	r, b := loggedIn(t)
	const noAddress, outOfRange = "This is not an address or number", "From 1 to 366 days."
	for _, c := range []struct{ channel, to, days, app, says string }{
		{"email", "", "7", "", noAddress},
		{"email", "nobody", "7", "", noAddress},
		{"email", "x@", "7", "", noAddress},
		{"sms", "4915112345678", "30", "", noAddress},
		{"email", "cy@example.com", "0", "", outOfRange},
		{"email", "cy@example.com", "-3", "", outOfRange},
		{"email", "cy@example.com", "367", "", outOfRange},
		{"email", "cy@example.com", "1.5", "", outOfRange},
		{"email", "cy@example.com", "7", "nope", "There is no such app."},
	} {
		rec := b.Post("/admin/suppressions", url.Values{
			"channel": {c.channel}, "to": {c.to}, "days": {c.days}, "app": {c.app}, "reason": {"ticket 8"},
		})
		contains(t, want(t, rec, http.StatusUnprocessableEntity), c.says, "Type the recipient again", `value="ticket 8"`,
			`value="`+c.days+`"`, `<option value="`+c.channel+`" selected>`, `name="app" value="`+c.app+`"`)
		lacks(t, rec, "cy@example.com", "4915112345678")
	}
	r.WantActs()
}

func TestSuppressionsJSON(t *testing.T) {
	r := newRig(t)
	_, ana := r.recipient("ana@example.com")
	send := r.begin("ana@example.com").Send
	r.finish(send, store.Outcome{
		Status: store.Failed, Reason: "rejected", ProviderCode: "550 5.1.1", Refund: true,
		Suppress: store.NewSuppression{Cause: store.CauseHardBounce, Address: ana, For: 720 * time.Hour},
	})
	r.Clock.Add(time.Second)
	b := r.Browser()
	const path = "/v1/admin/suppressions"
	for body, want := range map[string]problem{
		`"for":0`:                   {Field: "for", Reason: "out_of_range"},
		`"for":31622401`:            {Field: "for", Reason: "out_of_range"},
		`"for":9223372036854775807`: {Field: "for", Reason: "out_of_range"},
		`"app":"nope"`:              {Field: "app", Reason: "unknown"},
	} {
		rec := b.Do(http.MethodPost, path, `{"channel":"email","to":"bo@example.com","reason":"asked",`+body+`}`, asScript...)
		got := problemOf(t, rec, server.InvalidField)
		got.Type = ""
		servertest.Same(t, body, got, want)
	}
	added := b.Script(http.StatusCreated, http.MethodPost, path, `{"channel":"email","to":"bo@example.com","reason":"asked","for":3600}`)
	holds(t, added, map[string]any{
		"active": true, "by": "token", "to": "b•••@example.com", "reason": "manual", "detail": "asked", "until": "2026-03-04T15:02:21.118Z",
		"app": nil, "send_id": nil,
	})
	rows := b.List("suppressions", path)
	servertest.Same(t, "rows", len(rows), 2)
	holds(t, rows[1], map[string]any{"app": "shop", "reason": "hard_bounce", "detail": "550 5.1.1", "by": nil, "send_id": send.ID.String()})

	const lift = `{"channel":"email","to":"ANA@example.com","reason":"mended"}`
	lifted := b.Script(http.StatusOK, http.MethodPost, path+"/lift", lift)["lifted"].([]any)
	servertest.Same(t, "lifted", len(lifted), 1)
	holds(t, lifted[0].(map[string]any), map[string]any{
		"active": false, "lifted_by": "token", "lifted_reason": "mended", "lifted_at": "2026-03-04T14:02:21.118Z",
	})
	servertest.Same(t, "lifted again", len(b.Script(http.StatusOK, http.MethodPost, path+"/lift", lift)["lifted"].([]any)), 0)
	r.WantActs(
		act{Who: "token", What: auth.ActionSuppress, Outcome: store.AuditDone, To: "b•••@example.com", Reason: "asked"},
		act{Who: "token", What: auth.ActionLiftSuppression, Outcome: store.AuditDone, Detail: "1", To: "A•••@example.com", Reason: "mended"},
		act{Who: "token", What: auth.ActionLiftSuppression, Outcome: store.AuditDone, Detail: "0", To: "A•••@example.com", Reason: "mended"})
	r.Break()
	for _, path := range []string{path, path + "/lift"} {
		rec := b.Do(http.MethodPost, path, strings.Replace(lift, "mended", "asked", 1), asScript...)
		problemOf(t, rec, server.Unavailable)
		servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "2")
	}
}
