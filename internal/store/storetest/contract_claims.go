package storetest

import (
	"sync/atomic"
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
	if got.State != want {
		t.Fatalf("state %d, wanted %d", got.State, want)
	}
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

	Equal(t, "approved", Must(f.Approve(t.Context(), begun.Verification.ID, store.NewEvent{}))(t), true)
	Equal(t, "as it is now", f.claim(t, claim(1, later), store.ClaimDone).Verification.ApprovedAt, f.Now)
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

	OK(t, f.Release(t.Context(), claim(1, in).Key, later.Send.ID, true)) // not its send
	f.claim(t, claim(1, later), store.ClaimBusy)
	OK(t, f.Release(t.Context(), claim(1, in).Key, in.Send.ID, false))
	f.claim(t, other, store.ClaimOther)
	Equal(t, "given up", f.claim(t, claim(1, later), store.ClaimHeld).SendID, in.Send.ID)
	OK(t, f.Release(t.Context(), claim(1, in).Key, in.Send.ID, true))
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

func claimsAtOnce(t *testing.T, f *Fixture) {
	var held atomic.Int32
	var sends [50]uuid.UUID
	for i := range sends {
		sends[i] = f.Intent(1).Send.ID
	}
	Together(50, func(i int) {
		c := claim(1, store.Intent{Send: store.Send{ID: sends[i]}})
		got, err := f.Both(i).Claim(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		if got.State == store.ClaimHeld {
			held.Add(1)
			if got.SendID != sends[i] {
				t.Error("held with another's send")
			}
		}
	})
	Equal(t, "held", held.Load(), 1)
	f.Pass(15 * time.Second)
	held.Store(0)
	Together(50, func(i int) {
		got, err := f.Both(i).Claim(t.Context(), claim(1, store.Intent{Send: store.Send{ID: sends[i]}}))
		if err != nil {
			t.Error(err)
		}
		if got.State == store.ClaimHeld {
			held.Add(1)
		}
	})
	Equal(t, "taken over", held.Load(), 1)
}

// The ID of a refusal's row never is a send's; were it so, nothing was sent all the same.
func claimOfRefusal(t *testing.T, f *Fixture) {
	in := f.Intent(1)
	f.claim(t, claim(1, in), store.ClaimHeld)
	row := in.Send
	row.Status, row.BlockedBy, row.Count = store.Refused, "minute", 1
	OK(t, f.Refused(t.Context(), []store.Send{row}))
	f.claim(t, claim(1, in), store.ClaimBusy)
}

func badClaims(t *testing.T, f *Fixture) {
	for name, change := range map[string]func(*store.Claim){
		"no send":  func(c *store.Claim) { c.SendID = uuid.Nil },
		"no lease": func(c *store.Claim) { c.Lease = 0 },
		"no life":  func(c *store.Claim) { c.Life = c.Lease - 1 },
	} {
		c := claim(1, f.Intent(1))
		change(&c)
		if _, err := f.Claim(t.Context(), c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
