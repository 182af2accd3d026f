package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// claim is one with key n for the send of an intent.
func claim(n byte, in store.Intent) store.Claim {
	return store.Claim{Key: [32]byte{31: n}, Fingerprint: [32]byte{0: 1}, SendID: in.Send.ID, Lease: 15 * time.Second, Life: 24 * time.Hour}
}

func (f *Fixture) claim(t *testing.T, c store.Claim, want store.ClaimState) store.Claimed {
	t.Helper()
	got := Must(f.Claim(t.Context(), c))(t)
	Equal(t, "state", got.State, want)
	return got
}

func claims(t *testing.T, f *Fixture) {
	in, later := f.Intent(1), f.Intent(1)
	Equal(t, "send", f.claim(t, claim(1, in), store.ClaimHeld).SendID, in.Send.ID)
	f.claim(t, claim(1, later), store.ClaimBusy)
	f.claim(t, claim(2, later), store.ClaimHeld)
	other := claim(1, later)
	other.Fingerprint[31] = 9
	f.claim(t, other, store.ClaimOther)

	begun := f.Admit(t, in)
	done := f.claim(t, claim(1, later), store.ClaimDone)
	Equal(t, "send", done.Send, begun.Send)
	Equal(t, "verification", done.Verification, begun.Verification)
	Equal(t, "now", done.Now, f.Now)
	f.claim(t, other, store.ClaimOther)
	f.approve(t, begun.Verification.ID)
	Equal(t, "as it is now", f.claim(t, claim(1, later), store.ClaimDone).Verification.ApprovedAt, f.Now)

	// The ID of a refusal's row never is a send's; were it so, nothing was sent all the same.
	in = f.Intent(1)
	f.claim(t, claim(3, in), store.ClaimHeld)
	OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(1, func(s *store.Send) { s.ID = in.Send.ID })}))
	f.claim(t, claim(3, in), store.ClaimBusy)
}

func claimsGivenUp(t *testing.T, f *Fixture) {
	in, later := f.Intent(1), f.Intent(1)
	f.claim(t, claim(1, in), store.ClaimHeld)
	other := claim(1, later)
	other.Fingerprint[0]++

	f.Pass(15*time.Second - time.Microsecond)
	f.claim(t, claim(1, later), store.ClaimBusy)
	f.Pass(time.Microsecond)
	f.claim(t, other, store.ClaimOther)
	Equal(t, "after the lease, the same send", f.claim(t, claim(1, later), store.ClaimHeld).SendID, in.Send.ID)
	f.claim(t, claim(1, later), store.ClaimBusy)

	release := func(send uuid.UUID, forget bool) {
		t.Helper()
		OK(t, f.Release(t.Context(), claim(1, in).Key, send, forget))
	}
	release(later.Send.ID, true) // not its send
	f.claim(t, claim(1, later), store.ClaimBusy)
	release(in.Send.ID, false)
	f.claim(t, other, store.ClaimOther)
	Equal(t, "given up", f.claim(t, claim(1, later), store.ClaimHeld).SendID, in.Send.ID)
	release(in.Send.ID, true)
	Equal(t, "as if it never was", f.claim(t, other, store.ClaimHeld).SendID, later.Send.ID)
	OK(t, f.Release(t.Context(), [32]byte{7}, in.Send.ID, true)) // never was
}

func claimsForgotten(t *testing.T, f *Fixture) {
	in := f.Intent(1)
	f.claim(t, claim(1, in), store.ClaimHeld)
	f.Admit(t, in)
	for n := range byte(5) {
		f.claim(t, claim(10+n, f.Intent(2)), store.ClaimHeld)
	}
	f.Pass(24*time.Hour - time.Microsecond)
	f.claim(t, claim(1, f.Intent(1)), store.ClaimDone)
	f.Pass(time.Microsecond)
	fresh := f.Intent(1)
	c := claim(1, fresh)
	c.Fingerprint[0]++
	Equal(t, "a day later it is a new request", f.claim(t, c, store.ClaimHeld).SendID, fresh.Send.ID)
	c.SendID = f.Intent(1).Send.ID
	f.claim(t, c, store.ClaimBusy)
	again := f.Intent(2)
	Equal(t, "an old claim without a send", f.claim(t, claim(12, again), store.ClaimHeld).SendID, again.Send.ID)
}

// Of 50 requests with one key one holds it, for its own send; after its lease one takes over.
func claimsAtOnce(t *testing.T, f *Fixture) {
	for range 2 {
		var claims [50]store.Claim
		for i := range claims {
			claims[i] = claim(1, f.Intent(1))
		}
		first := f.Serial == 50
		Equal(t, "held", f.atOnce(t, 50, func(log store.Store, i int) (bool, error) {
			got, err := log.Claim(t.Context(), claims[i])
			if first && got.State == store.ClaimHeld && got.SendID != claims[i].SendID {
				t.Error("held with another's send")
			}
			return got.State == store.ClaimHeld, err
		}), 1)
		f.Pass(15 * time.Second)
	}
}
