package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// A send of which the log could not say whether it was written is looked up once the log answers. There is no row: the place
// comes back, in process and in the limiter.
func TestUncertainSendIsLookedUp(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.FailStore(sqlite.Vague)
		r.WantError(r.SendError(vtest.AskFor(vtest.Ana)), verification.ErrUnavailable)
		r.Sleep(20 * time.Second)
		r.MendStore()
		r.RefuseTo(vtest.Ana) // the log has not been asked yet
		r.Sleep(5 * time.Second)
		r.RefuseTo(vtest.Ana) // a transaction may still be under way
		r.Sleep(outbox.MissingFor)
		a := r.SendTo(vtest.Ana)
		if d := a.Quota.Rules; d[1].Remaining() != 4 || d[2].Remaining() != 9 {
			t.Errorf("the lost send counts: %+v", d)
		}
	})
}

// There is a row: it stays counted and goes out.
func TestUncertainSendThatWasWritten(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.FailStore(sqlite.Lost, "Begin")
		r.WantError(r.SendError(vtest.AskFor(vtest.Ana)), verification.ErrUnavailable)
		r.MendStore()
		r.Sleep(30 * time.Second)
		r.WantMails(1)
		r.RefuseTo(vtest.Ana)
	})
}

// A failure says whether the request may count: a send that the log may have taken, a try that it has counted or may have.
func TestFailuresSayWhatMayCount(t *testing.T) {
	for _, c := range []struct {
		method  string
		fault   sqlite.Fault
		counted bool
	}{
		{"Begin", sqlite.Down, false}, {"Begin", sqlite.Lost, true}, {"Attempt", sqlite.Down, false}, {"Attempt", sqlite.Lost, true},
		{"Approve", sqlite.Down, true}, {"Approve", sqlite.Lost, true},
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			r.FailStore(c.fault, c.method)
			checked, err := r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, r.Code(0))
			if c.method != "Begin" && checked.Compared() {
				t.Errorf("%s %v: it counts as a failure of the network", c.method, c.fault)
			}
			if c.method == "Begin" {
				_, err = r.Svc.Send(r.Context(), vtest.AskFor("ben@example.com"))
			}
			if !errors.Is(err, verification.ErrUnavailable) || errors.Is(err, verification.ErrUncertain) != c.counted {
				t.Errorf("%s %v: %v", c.method, c.fault, err)
			}
			r.MendStore()
			if c.method == "Approve" && c.fault == sqlite.Down && !r.Check(a.View.ID, r.Code(0)).Valid {
				t.Error("the right code was used up")
			}
		})
	}
}
