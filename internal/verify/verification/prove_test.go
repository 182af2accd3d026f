package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func browsersAsk(to string) verification.Request {
	ask := vtest.AskFor(to)
	ask.Kind = verification.Browser
	return ask
}

// A proven address is approved as by a code, with the same proof, and no mail is sent, no place
// spent.
func TestProve(t *testing.T) {
	vtest.InBubbleWith(t, vtest.TellAll, func(r *vtest.Rig) {
		p := verification.AddressEvidence{Issuer: "issuer.example", Nonce: "one", NonceAt: time.Now()}
		got, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p)
		r.NoError(err)
		r.WantLine("the answer", "true approved evp proven 29", got.Valid, got.State, got.Method,
			r.Get(got.ID).Send.Status, len(got.ID))
		r.Want("carries a proof and a token", got.Proof != "" && got.KnownToken != "", true)
		r.WantLine("the row", "evp", r.Verification(got.ID).Method)
		r.Sleep(time.Second)
		r.WantMails(0)
		r.WantEvents("verification.approved")
		if _, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p); !errors.Is(err, verification.ErrNonceUsed) {
			t.Errorf("the nonce once more: %v", err)
		}
		r.SendTo(vtest.Ana) // its minute is not spent
		p.Nonce = "two"
		again, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p) // though the minute is spent now
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
		for what, change := range map[string]func(*verification.Request){
			"a secret key":    func(a *verification.Request) { a.Kind = verification.BackEnd },
			"a bad address":   func(a *verification.Request) { a.To = "ana" },
			"another channel": func(a *verification.Request) { a.Channel = "pigeon" },
		} {
			ask := browsersAsk(vtest.Ana)
			change(&ask)
			if _, err := r.Svc.Prove(r.Context(), ask, p); err == nil {
				t.Errorf("%s: proven", what)
			}
		}
		r.FailStore(sqlitetest.Down, "InsertProven")
		if _, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p); !errors.Is(err, fault.Unavailable) {
			t.Errorf("without a database: %v", err)
		}
		r.MendStore()
		terms := r.Svc.Terms()
		for what, stop := range map[string]func(*policy.Set){
			"a blocked domain": func(s *policy.Set) { s.Blocks.Domains = map[string]bool{"example.com": true} },
			"a paused purpose": func(s *policy.Set) { s.Pauses = []policy.Pause{{Purpose: "default"}} },
		} {
			stopped := terms
			stop(&stopped)
			r.Svc.Change(stopped)
			if _, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p); !errors.Is(err, verification.ErrStopped) {
				t.Errorf("%s: %v", what, err)
			}
		}
		r.Svc.Change(terms)
		r.Svc.HoldUntil = time.Now().Add(time.Minute)
		if _, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p); !errors.Is(err, fault.Unavailable) {
			t.Errorf("while sends are held: %v", err)
		}
		r.Svc.HoldUntil = time.Time{}
		r.Want("rows", len(r.RowsOf(vtest.Ana)), 0)
		got, err := r.Svc.Prove(r.Context(), browsersAsk(vtest.Ana), p) // the nonce was not used up
		r.NoError(err)
		r.Want("method", got.Method, store.MethodEVP)
	})
}
