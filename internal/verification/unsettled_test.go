package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
)

// A send of which the log could not say whether it was written is looked up once the log answers. There is no row: the place
// comes back, in process and in the limiter.
func TestUncertainSendIsLookedUp(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Store.Uncertain.Store(true)
		r.Store.Set(true)
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		rig.Waited(20 * time.Second)
		r.Store.Set(false)
		r.Refuse(rig.AskFor(rig.Ana)) // the log has not been asked yet
		rig.Waited(5 * time.Second)
		r.Refuse(rig.AskFor(rig.Ana)) // a transaction may still be under way
		rig.Waited(outbox.MissingFor)
		a := r.Send(rig.AskFor(rig.Ana))
		if d := a.Quota.Rules; d[1].Remaining() != 4 || d[2].Remaining() != 9 {
			t.Errorf("the lost send counts: %+v", d)
		}
	})
}

// There is a row: it stays counted and goes out.
func TestUncertainSendThatWasWritten(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" {
				return sqlite.Lost
			}
			return sqlite.None
		})
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.Store.SetFault(nil)
		rig.Waited(30 * time.Second)
		r.Mails(1)
		r.Refuse(rig.AskFor(rig.Ana))
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
		rig.InBubble(t, func(r *rig.Rig) {
			a := r.Send(rig.AskFor(rig.Ana))
			r.Store.SetFault(func(method string) sqlite.Fault {
				if method == c.method {
					return c.fault
				}
				return sqlite.None
			})
			_, err := r.Svc.Check(r.Context(), rig.BackEnd, a.View.ID, rig.CodeIn(r.Post.All()[0]))
			if c.method == "Begin" {
				_, err = r.Svc.Send(r.Context(), rig.AskFor("ben@example.com"))
			}
			if !errors.Is(err, verification.ErrUnavailable) || errors.Is(err, verification.ErrUncertain) != c.counted {
				t.Errorf("%s %v: %v", c.method, c.fault, err)
			}
			r.Store.SetFault(nil)
		})
	}
}

// A key that could not be given up, because the log took nothing, is free once it does: the repeated request is a new one.
func TestKeyIsReleasedWhenTheLogIsBack(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" || method == "Release" || method == "Ping" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if _, err := r.Svc.Send(r.Context(), rig.Keyed(rig.Ana, "k")); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		rig.Waited(2 * time.Second)
		if _, err := r.Svc.Send(r.Context(), rig.Keyed(rig.Ana, "k")); !errors.Is(err, verification.ErrBusy) {
			t.Errorf("Send: %v", err)
		}
		r.Store.SetFault(nil)
		rig.Waited(2 * time.Second)
		if a := r.Send(rig.Keyed(rig.Ana, "k")); a.Replayed {
			t.Error("nothing to replay")
		}
	})
}

// A right code that could not be approved, because the log took nothing, is no failed check.
func TestApprovalThatCouldNotBeWritten(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		code := rig.CodeIn(r.Post.All()[0])
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Approve" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if c, err := r.Svc.Check(r.Context(), rig.BackEnd, a.View.ID, code); !errors.Is(err, verification.ErrUnavailable) || c.Compared() {
			t.Errorf("%+v %v", c, err)
		}
		r.Store.SetFault(nil)
		if c := r.Check(a.View.ID, code); !c.Valid {
			t.Errorf("%+v", c)
		}
	})
}
