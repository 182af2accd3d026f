package proof_test

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// redeeming is a process with one approval of Ana's.
type redeeming struct {
	*vtest.Rig
	*proof.Redeemer
	approved verification.CheckResult
}

func inRedemption(t *testing.T, test func(r *redeeming)) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		c := r.Check(a.View.ID, r.Code(0))
		if !c.Valid || c.Proof == "" {
			t.Fatalf("%+v", c)
		}
		test(&redeeming{r, r.Svc.Proofs, c})
	})
}

// away is a store that fails each write.
type away struct{ proof.Store }

func (away) Redeem(context.Context, string, []byte) (bool, error) { return false, fault.Unavailable }

func (r *redeeming) reference(app string) string {
	r.Helper()
	text, err := r.NewReference(app, r.approved.ID)
	r.NoError(err)
	return text
}

func TestRedeemTellsTheAddressOnce(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		by := proof.RedeemRequest{Proof: r.approved.Proof, IdempotencyKey: "a key"}
		got, err := r.Redeem(r.Context(), "shop", by)
		r.NoError(err)
		facts, _, err := r.Proofs.VerifySignature(r.approved.Proof)
		r.NoError(err)
		want := proof.RedeemedVerification{
			ID: r.approved.ID, Channel: "email", To: vtest.Ana, RecipientHash: facts.RecipientHash, Purpose: "default",
			ApprovedAt: got.ApprovedAt,
		}
		if got != want || time.Since(got.ApprovedAt).Abs() > time.Second {
			r.Errorf("%+v, want %+v", got, want)
		}
		if again, err := r.Redeem(r.Context(), "shop", by); err != nil || again != got {
			r.Errorf("the same request again: %+v, %v", again, err)
		}
		stored := r.Redeemer.Store
		r.Redeemer.Store = away{stored}
		r.WantError(vtest.Err(r.Redeem(r.Context(), "shop", by)), fault.Unavailable)
		r.Redeemer.Store = stored
		for _, other := range []proof.RedeemRequest{
			{Proof: r.approved.Proof, IdempotencyKey: "another"}, {Proof: r.approved.Proof}, {Reference: r.reference("shop")},
		} {
			r.WantError(vtest.Err(r.Redeem(r.Context(), "shop", other)), proof.ErrRedeemed)
		}
		r.Sleep(proof.Life)
		r.WantInvalid(vtest.Err(r.Redeem(r.Context(), "shop", by)), "proof", "expired")
	})
}

// A proof or reference that is forged, of another app, or without an approval always gets the same
// answer, and one that has expired another. Neither redeems anything.
func TestRedeemRefuses(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		pending := r.SendTo("bea@example.com")
		unapproved, err := r.NewReference("shop", pending.View.ID)
		r.NoError(err)
		unknown, err := r.NewReference("shop", "no such id")
		r.NoError(err)
		own := r.reference("shop")
		refused := func(app string, ask proof.RedeemRequest, field, reason string) {
			got, err := r.Redeem(r.Context(), app, ask)
			r.WantInvalid(err, field, reason)
			r.Want("what it tells", got, proof.RedeemedVerification{})
		}
		refused("shop", proof.RedeemRequest{}, "proof", "missing")
		refused("shop", proof.RedeemRequest{Proof: r.approved.Proof, Reference: own}, "proof", "missing")
		refused("another", proof.RedeemRequest{Proof: r.approved.Proof}, "proof", "invalid")
		refused("another", proof.RedeemRequest{Reference: own}, "reference", "invalid")
		for _, forged := range []string{"abc", r.approved.Proof + "x"} {
			refused("shop", proof.RedeemRequest{Proof: forged}, "proof", "invalid")
		}
		for _, forged := range []string{"!", own[1:], unapproved, unknown} {
			refused("shop", proof.RedeemRequest{Reference: forged}, "reference", "invalid")
		}
		r.Sleep(proof.ReferenceLife)
		refused("shop", proof.RedeemRequest{Reference: own}, "reference", "expired")
		fresh := proof.RedeemRequest{Reference: r.reference("shop")}
		got, err := r.Redeem(r.Context(), "shop", fresh)
		r.NoError(err)
		r.Want("the address", got.To, vtest.Ana)
		r.WantError(vtest.Err(r.Redeem(r.Context(), "shop", fresh)), proof.ErrRedeemed)
	})
}

func TestNoAddressIsToldOnceErased(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		ask := proof.RedeemRequest{Proof: r.approved.Proof, IdempotencyKey: "a key"}
		r.NoError(vtest.Err(r.Redeem(r.Context(), "shop", ask)))
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		if got, err := r.Redeem(r.Context(), "shop", ask); err != proof.ErrErased || got.To != "" {
			r.Errorf("%+v, %v", got, err)
		}
	})
}

// If the database is away, the same request returns the address later.
func TestRedeemWithoutTheDatabase(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		ask := proof.RedeemRequest{Proof: r.approved.Proof, IdempotencyKey: "a key"}
		r.Rig.LoseStore()
		r.WantError(vtest.Err(r.Redeem(r.Context(), "shop", ask)), fault.Unavailable)
		r.Rig.EndStoreFaults()
		if got, err := r.Redeem(r.Context(), "shop", ask); err != nil || got.To != vtest.Ana {
			r.Errorf("back: %+v, %v", got, err)
		}
	})
}

// If the database's answer to a redemption is lost, the proof is redeemed. The same request then
// gets the address, if it has an Idempotency-Key. Without one it is refused, because nothing shows
// that it comes from the same back end.
func TestRedeemAfterALostAnswer(t *testing.T) {
	for name, key := range map[string]string{"with a key": "a key", "without": ""} {
		t.Run(name, func(t *testing.T) {
			inRedemption(t, func(r *redeeming) {
				ask := proof.RedeemRequest{Proof: r.approved.Proof, IdempotencyKey: key}
				r.FailStore(sqlitetest.Lost, "Redeem")
				got, err := r.Redeem(r.Context(), "shop", ask)
				r.WantError(err, fault.Uncertain)
				r.Want("told without an answer", got, proof.RedeemedVerification{})
				r.EndStoreFaults()
				for _, other := range []string{"another", ""} {
					r.WantError(vtest.Err(r.Redeem(r.Context(), "shop", proof.RedeemRequest{
						Proof: ask.Proof, IdempotencyKey: other,
					})), proof.ErrRedeemed)
				}
				got, err = r.Redeem(r.Context(), "shop", ask)
				if key == "" {
					r.WantError(err, proof.ErrRedeemed)
					return
				}
				r.NoError(err)
				r.Want("told later", got.To, vtest.Ana)
			})
		})
	}
}
