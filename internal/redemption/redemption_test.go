package redemption_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sendcode/internal/proof"
	"sendcode/internal/redemption"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// redeeming is a process with one approval of Ana's.
type redeeming struct {
	*vtest.Rig
	*redemption.Service
	approved verification.Checked
}

func inRedemption(t *testing.T, test func(r *redeeming)) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Svc.Prover = proof.New(r.Settings.Vault.Ring)
		a := r.SendTo(vtest.Ana)
		c := r.Check(a.View.ID, r.Code(0))
		if !c.Valid || c.Proof == "" {
			t.Fatalf("%+v", c)
		}
		p := proof.New(r.Settings.Vault.Ring)
		test(&redeeming{r, &redemption.Service{Store: r.Store, Proofs: p, Vault: r.Settings.Vault, Policy: r.Svc.Policy, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, c})
	})
}

func (r *redeeming) reference(app string) string {
	r.Helper()
	text, err := r.Reference(app, r.approved.ID)
	r.NoError(err)
	return text
}

// refused says which field is wrong, and why; empty: none.
func refused(err error) string {
	var bad *verification.InvalidError
	if errors.As(err, &bad) {
		return bad.Field + " " + bad.Reason
	}
	return fmt.Sprint(err)
}

func TestRedeemTellsTheAddressOnce(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		by := redemption.Ask{Proof: r.approved.Proof, Key: "a key"}
		got, err := r.Redeem(r.Context(), vtest.BackEnd.App, by)
		r.NoError(err)
		facts, _, err := r.Proofs.VerifySignature(r.approved.Proof)
		r.NoError(err)
		want := redemption.Redeemed{
			ID: r.approved.ID, Channel: "email", To: vtest.Ana, Recipient: facts.Recipient, Purpose: "default", ApprovedAt: got.ApprovedAt,
		}
		if got != want || time.Since(got.ApprovedAt).Abs() > time.Second {
			r.Errorf("%+v, want %+v", got, want)
		}
		if again, err := r.Redeem(r.Context(), vtest.BackEnd.App, by); err != nil || again != got {
			r.Errorf("the same request again: %+v, %v", again, err)
		}
		for what, other := range map[string]redemption.Ask{
			"another key": {Proof: r.approved.Proof, Key: "another"}, "no key": {Proof: r.approved.Proof},
			"the reference": {Reference: r.reference(vtest.BackEnd.App)},
		} {
			if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, other); err != redemption.ErrRedeemed {
				r.Errorf("%s: %v", what, err)
			}
		}
		r.Sleep(proof.Life)
		if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, by); refused(err) != "proof expired" {
			r.Errorf("after its life: %v", err)
		}
	})
}

func TestAReferenceIsRedeemedAsItsProof(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		got, err := r.Redeem(r.Context(), vtest.BackEnd.App, redemption.Ask{Reference: r.reference(vtest.BackEnd.App)})
		if err != nil || got.To != vtest.Ana {
			r.Errorf("%+v, %v", got, err)
		}
		if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, redemption.Ask{Proof: r.approved.Proof}); err != redemption.ErrRedeemed {
			r.Errorf("its proof: %v", err)
		}
	})
}

// What is forged, of another app, expired, or of no approval gets one answer, and nothing of it is redeemed.
func TestRedeemRefuses(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		pending := r.SendTo("bea@example.com")
		unapproved, err := r.Reference(vtest.BackEnd.App, pending.View.ID)
		r.NoError(err)
		unknown, err := r.Reference(vtest.BackEnd.App, "no such id")
		r.NoError(err)
		own := r.reference(vtest.BackEnd.App)
		for what, test := range map[string]struct {
			by   string
			ask  redemption.Ask
			want string
		}{
			"nothing":                 {vtest.BackEnd.App, redemption.Ask{}, "proof missing"},
			"both":                    {vtest.BackEnd.App, redemption.Ask{Proof: r.approved.Proof, Reference: own}, "proof missing"},
			"no proof":                {vtest.BackEnd.App, redemption.Ask{Proof: "abc"}, "proof invalid"},
			"a forged proof":          {vtest.BackEnd.App, redemption.Ask{Proof: r.approved.Proof + "x"}, "proof invalid"},
			"another app's proof":     {"another", redemption.Ask{Proof: r.approved.Proof}, "proof invalid"},
			"another app's reference": {"another", redemption.Ask{Reference: own}, "reference invalid"},
			"no reference":            {vtest.BackEnd.App, redemption.Ask{Reference: "!"}, "reference invalid"},
			"a forged reference":      {vtest.BackEnd.App, redemption.Ask{Reference: own[1:]}, "reference invalid"},
			"of no approval":          {vtest.BackEnd.App, redemption.Ask{Reference: unapproved}, "reference invalid"},
			"of no verification":      {vtest.BackEnd.App, redemption.Ask{Reference: unknown}, "reference invalid"},
		} {
			if got, err := r.Redeem(r.Context(), test.by, test.ask); refused(err) != test.want || got != (redemption.Redeemed{}) {
				r.Errorf("%s: %+v, %v, want %s", what, got, err, test.want)
			}
		}
		r.Sleep(redemption.ReferenceLife)
		if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, redemption.Ask{Reference: own}); refused(err) != "reference expired" {
			r.Errorf("an old reference: %v", err)
		}
		if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, redemption.Ask{Reference: r.reference(vtest.BackEnd.App)}); err != nil {
			r.Errorf("afterwards: %v", err)
		}
	})
}

func TestNoAddressIsToldOnceErased(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		ask := redemption.Ask{Proof: r.approved.Proof, Key: "a key"}
		if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, ask); err != nil {
			r.Error(err)
		}
		r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), vtest.AuditEntry("erase")))
		if got, err := r.Redeem(r.Context(), vtest.BackEnd.App, ask); err != redemption.ErrErased || got.To != "" {
			r.Errorf("%+v, %v", got, err)
		}
	})
}

// The log that is away, or that took the redemption unheard: the same request again is told the address.
func TestRedeemWithoutTheLog(t *testing.T) {
	inRedemption(t, func(r *redeeming) {
		ask := redemption.Ask{Proof: r.approved.Proof, Key: "a key"}
		r.Rig.CutStore()
		if _, err := r.Redeem(r.Context(), vtest.BackEnd.App, ask); !errors.Is(err, verification.ErrUnavailable) {
			r.Errorf("away: %v", err)
		}
		r.Rig.MendStore()
		if got, err := r.Redeem(r.Context(), vtest.BackEnd.App, ask); err != nil || got.To != vtest.Ana {
			r.Errorf("back: %+v, %v", got, err)
		}
	})
}
