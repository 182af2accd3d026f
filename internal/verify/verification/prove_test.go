package verification_test

import (
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A proven address is approved as by a code, with the same proof, and no mail is sent, no place
// spent.
func TestProve(t *testing.T) {
	vtest.InBubbleWith(t, vtest.TellAll, func(r *vtest.Rig) {
		p := verification.AddressEvidence{Issuer: "issuer.example", Nonce: "one", NonceAt: time.Now()}
		got, err := r.Svc.Prove(r.Context(), byBrowser(vtest.Ana), p)
		r.NoError(err)
		r.WantLine("the answer", "true approved evp proven 29", got.Valid, got.State, got.Method, r.Get(got.ID).Send.Status, len(got.ID))
		r.Want("carries a proof and a token", got.Proof != "" && got.KnownToken != "", true)
		r.WantLine("the row", "evp", r.Verification(got.ID).Method)
		r.Sleep(time.Second)
		r.WantMails(0)
		r.WantEvents("verification.approved")
		r.WantError(vtest.Err(r.Svc.Prove(r.Context(), byBrowser(vtest.Ana), p)), verification.ErrNonceUsed)
		r.SendTo(vtest.Ana) // its minute is not spent
		p.Nonce = "two"
		again, err := r.Svc.Prove(r.Context(), byBrowser(vtest.Ana), p) // though the minute is spent now
		r.NoError(err)
		r.Want("approved anew", again.Valid && again.ID != got.ID, true)
		rows := r.RowsOf(vtest.Ana)
		r.Want("rows", len(rows), 3)
		r.Want("who vouched for it", rows[0].Provider, "issuer.example")
	})
}

func TestProveRefuses(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		p := verification.AddressEvidence{Issuer: "issuer.example", Nonce: "one", NonceAt: time.Now()}
		prove := func(options ...vtest.Option) error {
			ask := byBrowser(vtest.Ana)
			for _, change := range options {
				change(&ask)
			}
			return vtest.Err(r.Svc.Prove(r.Context(), ask, p))
		}
		r.WantInvalid(prove(vtest.By(vtest.BackEnd)), "to", "not_allowed")
		r.WantInvalid(prove(func(a *verification.Request) { a.To = "ana" }), "to", "")
		r.WantInvalid(prove(func(a *verification.Request) { a.Channel = "pigeon" }), "channel", "")
		r.FailStore(sqlitetest.Down, "InsertProven")
		r.WantError(prove(), fault.Unavailable)
		r.MendStore()
		terms := r.Svc.Terms()
		blocked := terms
		blocked.Blocks.Domains = map[string]bool{"example.com": true}
		r.Svc.Change(blocked)
		r.WantError(prove(), verification.ErrStopped)
		r.Svc.Change(terms)
		r.Pause(policy.Pause{Purpose: "default"})
		r.WantError(prove(), verification.ErrStopped)
		r.Pause()
		r.Svc.HoldUntil = time.Now().Add(time.Minute)
		r.WantError(prove(), fault.Unavailable) // while sends are held
		r.Svc.HoldUntil = time.Time{}
		r.Want("rows", len(r.RowsOf(vtest.Ana)), 0)
		got, err := r.Svc.Prove(r.Context(), byBrowser(vtest.Ana), p) // the nonce was not used up
		r.NoError(err)
		r.Want("method", got.Method, store.MethodEVP)
	})
}
