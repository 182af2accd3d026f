package console

import (
	"testing"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// The page of a send that a pause stopped shows the pause that applies now.
func TestStoryOfAPausedSend(t *testing.T) {
	r := newRig(t)
	send := r.begin("bo@example.com").Send
	r.finish(send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	pauses := []policy.Pause{{Channel: recipient.Email, Reason: "the server moves"}}
	r.Svc.Change(policy.Set{Purposes: r.Svc.Terms().Purposes, Pauses: pauses})
	contains(t, r.LoggedIn().Get("/admin/sends/"+send.ID.String()), "Nothing was sent: this was paused.", "the server moves", "not sent")
}

// Where nothing is to do, no action stands out.
func TestFirstActionFollowsTheVerdict(t *testing.T) {
	r := newRig(t)
	s := r.sent("ana@example.com")
	b := r.LoggedIn()
	page := explain.SendPageAddress(s.ID)
	contains(t, b.Get(page), `<div class="buttons">`, "?do=resend#actions")
	r.Must(r.Store.Check(t.Context(), storetest.Right(s.VerificationID)))
	contains(t, b.Get(page), `<div class="buttons settled">`)
}
