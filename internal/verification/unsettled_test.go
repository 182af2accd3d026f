package verification

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/store/sqlite"
)

// A send of which the log could not say whether it was written is looked up once the log answers. There is no row: the place
// comes back, in process and in the limiter.
func TestUncertainSendIsLookedUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.log.uncertain.Store(true)
		r.log.set(true)
		if _, err := r.svc.Send(r.Context(), askFor(ana)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		waited(20 * time.Second)
		r.log.set(false)
		r.refuse(askFor(ana)) // the log has not been asked yet
		waited(5 * time.Second)
		r.refuse(askFor(ana)) // a transaction may still be under way
		waited(settledAfter)
		a := r.send(askFor(ana))
		if d := a.Quota.Rules; d[1].Remaining() != 4 || d[2].Remaining() != 9 {
			t.Errorf("the lost send counts: %+v", d)
		}
	})
}

// There is a row: it stays counted and goes out.
func TestUncertainSendThatWasWritten(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" {
				return sqlite.Lost
			}
			return sqlite.None
		})
		if _, err := r.svc.Send(r.Context(), askFor(ana)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.log.SetFault(nil)
		waited(30 * time.Second)
		r.mails(1)
		r.refuse(askFor(ana))
	})
}

// A key that could not be given up, because the log took nothing, is free once it does: the repeated request is a new one.
func TestKeyIsReleasedWhenTheLogIsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" || method == "Release" || method == "Ping" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if _, err := r.svc.Send(r.Context(), keyed(ana, "k")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		waited(2 * time.Second)
		if _, err := r.svc.Send(r.Context(), keyed(ana, "k")); !errors.Is(err, ErrBusy) {
			t.Errorf("Send: %v", err)
		}
		r.log.SetFault(nil)
		waited(2 * time.Second)
		if a := r.send(keyed(ana, "k")); a.Replayed {
			t.Error("nothing to replay")
		}
	})
}

// A right code that could not be approved, because the log took nothing, is no failed check.
func TestApprovalThatCouldNotBeWritten(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Approve" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if c, err := r.svc.Check(r.Context(), backEnd, a.View.ID, code); !errors.Is(err, ErrUnavailable) || !c.uncompared {
			t.Errorf("%+v %v", c, err)
		}
		r.log.SetFault(nil)
		if c := r.check(a.View.ID, code); !c.Valid {
			t.Errorf("%+v", c)
		}
	})
}
