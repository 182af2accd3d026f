package verification_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/base/fault"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

const checkKey = "5f0c9a4be1d24786a35e70c81b9f2d63"

func checkWith(r *vtest.Rig, c verification.Caller, key, id, typed string) (verification.CheckResult, error) {
	c.IdempotencyKey = key
	return r.Svc.Check(r.Context(), c, id, typed)
}

// A request with the same key gets the answer to the right code again: the same proof, while the
// proof is valid, and only one event. No other key, code, kind of caller or app gets this answer.
func TestCheckRepeatsAnApproval(t *testing.T) {
	for name, by := range map[string]verification.Caller{"secret key": vtest.BackEnd, "browser": vtest.Browser} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.SubscribeAll, func(r *vtest.Rig) {
				r.Svc.ProofSigner = proof.New(r.Settings.Vault.Ring)
				a := r.Send(vtest.AskFor(vtest.Ana, vtest.By(by)))
				id, right := a.View.ID, r.Code(0)
				check := func(c verification.Caller, key, typed string, state verification.State, valid bool,
				) (got verification.CheckResult) {
					t.Helper()
					got, err := checkWith(r, c, key, id, typed)
					r.NoError(err)
					r.WantChecked("checked", got, state, valid)
					return got
				}
				first := check(by, checkKey, right, verification.Approved, true)
				r.Sleep(time.Minute)
				check(by, checkKey[2:]+"00", right, verification.Approved, false)
				check(by, "", right, verification.Approved, false)
				other, refused := by, verification.ErrKeyOfOtherCode
				if other.Kind = verification.BackEnd; by.Kind == verification.BackEnd {
					other.Kind, refused = verification.Browser, fault.NotFound
				}
				r.WantError(vtest.Err(checkWith(r, other, checkKey, id, right)), refused)
				other = by
				other.App = "elsewhere"
				r.WantError(vtest.Err(checkWith(r, other, checkKey, id, right)), fault.NotFound)
				r.WantError(vtest.Err(checkWith(r, by, checkKey, id, r.WrongCode(right))), verification.ErrKeyOfOtherCode)
				again := check(by, checkKey, right[:3]+" "+right[3:], verification.Approved, true)
				r.Want("the proof", again.Proof, first.Proof)
				r.Want("has a token", again.KnownToken != "", by.Kind == verification.Browser)
				claims, err := jwt.ParseSigned(again.Proof, []jose.SignatureAlgorithm{jose.EdDSA})
				r.NoError(err)
				var c jwt.Claims
				r.NoError(claims.UnsafeClaimsWithoutVerification(&c))
				r.Want("expires", c.Expiry.Time().Equal(r.Verification(id).ApprovedAt.Truncate(time.Second).Add(proof.Life)), true)
				r.Sleep(time.Until(c.Expiry.Time()) - time.Microsecond)
				check(by, checkKey, right, verification.Approved, true)
				r.Sleep(time.Microsecond)
				check(by, checkKey, right, verification.Approved, false)
				r.WantEvents("send.sent", "verification.approved")
				r.Want("tries", r.Verification(id).Attempts, 1)
			})
		})
	}
}

// An attacker who knows the key of an approval, but not its code, has only as many guesses as a
// code has attempts.
func TestCheckBoundsGuessesWithAKey(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		id := r.Send(byBrowser(vtest.Ana)).View.ID
		right := r.Code(0)
		wrong := r.WrongCode(right)
		for range 2 { // the second check repeats the first, and costs no attempt
			got, err := checkWith(r, vtest.Browser, checkKey, id, wrong)
			r.NoError(err)
			r.WantChecked("a wrong code", got, verification.Pending, false)
			r.Want("tries left", got.AttemptsRemaining, 4)
		}
		r.WantError(vtest.Err(checkWith(r, vtest.Browser, checkKey, id, right)), verification.ErrKeyOfOtherCode)
		r.Want("tries", r.Get(id).AttemptsRemaining, 4)
		approving := strings.ToUpper(checkKey)[2:] + "0F"
		got, err := checkWith(r, vtest.Browser, approving, id, right)
		r.NoError(err)
		r.WantChecked("the right code", got, verification.Approved, true)
		for range verification.MaxAttempts {
			r.WantError(vtest.Err(checkWith(r, vtest.Browser, approving, id, r.WrongCode(right))), verification.ErrKeyOfOtherCode)
		}
		r.WantError(vtest.Err(checkWith(r, vtest.Browser, approving, id, right)), verification.ErrKeyOfOtherCode)
	})
}

func TestCheckAtOnceWithOneKey(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SubscribeAll, func(r *vtest.Rig) {
		r.Svc.ProofSigner = proof.New(r.Settings.Vault.Ring)
		id := r.SendTo(vtest.Ana).View.ID
		var proofs [2]string
		var both sync.WaitGroup
		for i := range proofs {
			both.Go(func() {
				got, err := checkWith(r, vtest.BackEnd, checkKey, id, r.Code(0))
				r.NoError(err)
				proofs[i] = got.Proof
			})
		}
		both.Wait()
		vtest.Equal(r, "has one proof", proofs[0] != "", true)
		vtest.Equal(r, "has one proof", proofs[0] == proofs[1], true)
		r.WantEvents("send.sent", "verification.approved")
	})
}

// A check by recipient prefers the verification of the key to a newer pending one, until the former
// is erased.
func TestCheckByRecipientRepeatsAnApproval(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		ask := anaByName
		ask.IdempotencyKey = checkKey
		check := func(ask verification.Request, want bool) {
			t.Helper()
			got, err := r.Svc.CheckByRecipient(r.Context(), ask, r.Code(0))
			r.NoError(err)
			vtest.Equal(r, "checked the first verification", got.ID == a.View.ID, want)
			vtest.Equal(r, "valid", got.Valid, want)
		}
		check(ask, true)
		r.Sleep(time.Minute)
		newer := r.SendTo(vtest.Ana)
		check(ask, true)
		r.Want("tries of the newer one", r.Get(newer.View.ID).AttemptsRemaining, verification.MaxAttempts)
		check(anaByName, false)
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		r.WantError(vtest.Err(r.Svc.CheckByRecipient(r.Context(), ask, r.Code(0))), fault.NotFound)
		got, err := checkWith(r, vtest.BackEnd, checkKey, a.View.ID, r.Code(0))
		r.Want("valid once erased", got.Valid || got.Proof != "", false)
		r.NoError(err)
	})
}

// A thousand guesses with keys compare no more codes than a thousand guesses without keys, whether
// each guess has a key of its own or all have the same key. A guess with the key of an approval
// compares nothing, from any address, since the key is random. After too many guesses, not even the
// right code repeats the approval.
func TestCheckGuessesWithKeys(t *testing.T) {
	const guesses, rounds = 1000, 5
	compared := map[string]int{}
	for name, key := range map[string]func(n int) string{
		"none":      func(int) string { return "" },
		"one each":  func(n int) string { return fmt.Sprintf("%032x", n) },
		"one alone": func(int) string { return checkKey },
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			for round := range rounds {
				if round > 0 {
					r.Sleep(time.Minute)
				}
				a, err := r.Svc.Send(r.Context(), byBrowser(vtest.Ana))
				if err != nil || !a.Admitted {
					break // locked out
				}
				r.Sleep(time.Second)
				right := r.LastCode()
				for n := range guesses / rounds {
					if code := fmt.Sprintf("%06d", n); code != right {
						_, _ = checkWith(r, vtest.Browser, key(n), a.View.ID, code)
					}
				}
				compared[name] += r.Verification(a.View.ID).Attempts
			}
		})
	}
	if n := compared["none"]; n < verification.MaxAttempts || compared["one each"] != n || compared["one alone"] > n {
		t.Errorf("codes that were compared: %v", compared)
	}
	vtest.InBubble(t, func(r *vtest.Rig) {
		id := r.Send(byBrowser(vtest.Ana)).View.ID
		right, elsewhere := r.Code(0), vtest.Browser
		_, err := checkWith(r, vtest.Browser, checkKey, id, right)
		r.NoError(err)
		elsewhere.IP = netip.MustParseAddr("198.51.100.7")
		for n := range guesses {
			code := fmt.Sprintf("%06d", n)
			if code == right {
				continue
			}
			if _, err := checkWith(r, elsewhere, checkKey, id, code); !errors.Is(err, verification.ErrKeyOfOtherCode) {
				t.Fatalf("guess %d: %v", n, err)
			}
		}
		r.WantError(vtest.Err(checkWith(r, elsewhere, checkKey, id, right)), verification.ErrKeyOfOtherCode)
	})
}
