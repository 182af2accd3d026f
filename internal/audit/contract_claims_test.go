package audit

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// claim is one with key n for the send of an intent.
func claim(n byte, in Intent) Claim {
	return Claim{Key: [32]byte{31: n}, Fingerprint: [32]byte{0: 1}, SendID: in.Send.ID, Lease: 15 * time.Second, Life: 24 * time.Hour}
}

func (f *fixture) claim(t *testing.T, c Claim, want ClaimState) Claimed {
	t.Helper()
	got, err := f.Claim(t.Context(), c)
	ok(t, err)
	if got.State != want {
		t.Fatalf("state %d, wanted %d", got.State, want)
	}
	return got
}

func claims(t *testing.T, f *fixture) {
	in, later := f.intent(1), f.intent(1)
	equal(t, "send", f.claim(t, claim(1, in), ClaimHeld).SendID, in.Send.ID)
	f.claim(t, claim(1, later), ClaimBusy)
	f.claim(t, claim(2, later), ClaimHeld)
	other := claim(1, later)
	other.Fingerprint[31] = 9
	f.claim(t, other, ClaimOther)

	begun := f.admit(t, in)
	done := f.claim(t, claim(1, later), ClaimDone)
	equal(t, "send", done.Send, begun.Send)
	equal(t, "verification", done.Verification, begun.Verification)
	equal(t, "now", done.Now, f.now)
	f.claim(t, other, ClaimOther)

	won, err := f.Approve(t.Context(), begun.Verification.ID, Tell{})
	ok(t, err)
	equal(t, "approved", won, true)
	equal(t, "as it is now", f.claim(t, claim(1, later), ClaimDone).Verification.ApprovedAt, f.now)
}

func claimsGivenUp(t *testing.T, f *fixture) {
	in, later := f.intent(1), f.intent(1)
	f.claim(t, claim(1, in), ClaimHeld)
	other := claim(1, later)
	other.Fingerprint[0]++

	f.pass(15*time.Second - time.Microsecond)
	f.claim(t, claim(1, later), ClaimBusy)
	f.pass(time.Microsecond)
	f.claim(t, other, ClaimOther)
	equal(t, "after the lease, the same send", f.claim(t, claim(1, later), ClaimHeld).SendID, in.Send.ID)
	f.claim(t, claim(1, later), ClaimBusy)

	ok(t, f.Release(t.Context(), claim(1, in).Key, later.Send.ID, true)) // not its send
	f.claim(t, claim(1, later), ClaimBusy)
	ok(t, f.Release(t.Context(), claim(1, in).Key, in.Send.ID, false))
	f.claim(t, other, ClaimOther)
	equal(t, "given up", f.claim(t, claim(1, later), ClaimHeld).SendID, in.Send.ID)
	ok(t, f.Release(t.Context(), claim(1, in).Key, in.Send.ID, true))
	equal(t, "as if it never was", f.claim(t, other, ClaimHeld).SendID, later.Send.ID)
	ok(t, f.Release(t.Context(), [32]byte{7}, in.Send.ID, true)) // never was
}

func claimsForgotten(t *testing.T, f *fixture) {
	in := f.intent(1)
	f.claim(t, claim(1, in), ClaimHeld)
	f.admit(t, in)
	for n := range byte(5) {
		f.claim(t, claim(10+n, f.intent(2)), ClaimHeld)
	}
	f.pass(24*time.Hour - time.Microsecond)
	f.claim(t, claim(1, f.intent(1)), ClaimDone)
	f.pass(time.Microsecond)
	fresh := f.intent(1)
	c := claim(1, fresh)
	c.Fingerprint[0]++
	equal(t, "a day later it is a new request", f.claim(t, c, ClaimHeld).SendID, fresh.Send.ID)
	c.SendID = f.intent(1).Send.ID
	f.claim(t, c, ClaimBusy)
	again := f.intent(2)
	equal(t, "an old claim without a send", f.claim(t, claim(12, again), ClaimHeld).SendID, again.Send.ID)
}

func claimsAtOnce(t *testing.T, f *fixture) {
	var held atomic.Int32
	var sends [50]uuid.UUID
	for i := range sends {
		sends[i] = f.intent(1).Send.ID
	}
	together(50, func(i int) {
		c := claim(1, Intent{Send: Send{ID: sends[i]}})
		got, err := f.both(i).Claim(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		if got.State == ClaimHeld {
			held.Add(1)
			if got.SendID != sends[i] {
				t.Error("held with another's send")
			}
		}
	})
	equal(t, "held", held.Load(), 1)
	f.pass(15 * time.Second)
	held.Store(0)
	together(50, func(i int) {
		got, err := f.both(i).Claim(t.Context(), claim(1, Intent{Send: Send{ID: sends[i]}}))
		if err != nil {
			t.Error(err)
		}
		if got.State == ClaimHeld {
			held.Add(1)
		}
	})
	equal(t, "taken over", held.Load(), 1)
}

// The ID of a refusal's row never is a send's; were it so, nothing was sent all the same.
func claimOfRefusal(t *testing.T, f *fixture) {
	in := f.intent(1)
	f.claim(t, claim(1, in), ClaimHeld)
	row := in.Send
	row.Status, row.BlockedBy, row.Count = Refused, "minute", 1
	ok(t, f.Refused(t.Context(), []Send{row}))
	f.claim(t, claim(1, in), ClaimBusy)
}

func badClaims(t *testing.T, f *fixture) {
	for name, change := range map[string]func(*Claim){
		"no send":  func(c *Claim) { c.SendID = uuid.Nil },
		"no lease": func(c *Claim) { c.Lease = 0 },
		"no life":  func(c *Claim) { c.Life = c.Lease - 1 },
	} {
		c := claim(1, f.intent(1))
		change(&c)
		if _, err := f.Claim(t.Context(), c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
