package storetest

import (
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// A proven address has its approved verification, a row that tells who vouched for it, and its
// event; and nothing of it is sent or counted.
func proves(t *testing.T, f *Fixture) {
	in := f.Intent(1)
	tell := f.Telling(store.VerificationApproved)
	tell.Status = "approved"
	begun, fresh := must2(f.InsertProven(t.Context(), in, "issuer.example", tell))(t)
	Equal(t, "fresh", fresh, true)
	v, send, now := Must3(f.Verification(t.Context(), in.Verification.ID))(t)
	Equal(t, "verification", v, begun.Verification)
	Equal(t, "send", send, begun.Send)
	Equal(t, "approved", []any{v.ApprovedAt, v.Method, v.CreatedAt, v.ExpiresAt, v.Sends, v.Sealed},
		[]any{now, store.MethodEVP, now, now.Add(in.TTL), 0, in.Verification.Sealed})
	Equal(t, "the row", []any{send.ID, send.VerificationID, send.Number, send.Status, send.Provider, send.Counts,
		send.LoggedAt, send.FinishedAt},
		[]any{in.Send.ID, v.ID, 0, store.Proven, "issuer.example", false, now, now})
	want := store.AppEvent{
		ID: tell.ID, App: "shop", Type: tell.Type, VerificationID: v.ID, Status: "approved", At: now, State: store.EventPending, DueAt: now,
		Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7", Method: store.MethodEVP,
	}
	Equal(t, "event", f.events(t, store.AppEventFilter{}), []store.AppEvent{want})
	for _, by := range []store.Filter{{Status: store.Proven}, {Provider: "issuer.example"}, {Recipient: &send.Recipient}} {
		by.Limit = 10
		Equal(t, "listed", len(Must(f.Sends(t.Context(), by))(t)), 1)
	}
	Equal(t, "under way", len(Must(f.TakeOver(t.Context(), store.Queue{Channel: "email"}, time.Minute, 10))(t)), 0)
	Equal(t, "checked", Must(f.Check(t.Context(), Right(v.ID)))(t).Counted, false)
	Equal(t, "redeemed", Must(f.Redeem(t.Context(), v.ID, nil))(t), true)
	// The recipient's minute is not spent, and no code is sent again for what is approved.
	again := f.Admit(t, f.Intent(1, WithRules(DefaultRules), Joining(v.ID)))
	Equal(t, "sends of the code that is asked for now", again.Verification.Sends, 1)
	s := Must(f.Stats(t.Context(), store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour), Each: time.Hour}))(t)
	Equal(t, "opened and approved by codes", []int{s.Opened, s.Approved}, []int{1, 0})
}

// Of several requests with one nonce, on all replicas, one is proven.
func provesOnce(t *testing.T, f *Fixture) {
	var id = f.Intent(1).Verification.ID
	Equal(t, "proven", f.atOnce(t, 20, func(db *sqldb.DB, i int) (bool, error) {
		in := f.Intent(2)
		in.Verification.ID = id
		_, fresh, err := db.InsertProven(t.Context(), in, "issuer.example", store.NewEvent{})
		return fresh, err
	}), 1)
	Equal(t, "rows", len(f.All(t)), 1)
}
