package verification_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
	"sendcode/internal/vault"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
)

func TestCheckCountsThenCompares(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		code := rig.CodeIn(r.Post.All()[0])
		for left := verification.MaxAttempts - 1; left > 0; left-- {
			if c := r.Check(a.View.ID, rig.WrongFor(code)); c.Valid || c.State != verification.Pending || c.AttemptsRemaining != left {
				t.Fatalf("wrong code: %+v, want %d left", c, left)
			}
		}
		if c := r.Check(a.View.ID, rig.WrongFor(code)); c.Valid || c.State != verification.MaxAttemptsReached {
			t.Fatalf("fifth wrong code: %+v", c)
		}
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.MaxAttemptsReached {
			t.Fatalf("the right code after five wrong ones: %+v", c)
		}
	})
}

func TestFifthTryMayBeRight(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		code := rig.CodeIn(r.Post.All()[0])
		for range verification.MaxAttempts - 1 {
			r.Check(a.View.ID, rig.WrongFor(code))
		}
		if c := r.Check(a.View.ID, code); !c.Valid || c.State != verification.Approved {
			t.Fatalf("%+v", c)
		}
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.Approved {
			t.Fatalf("used again: %+v", c)
		}
	})
}

func TestOneRightAnswerIsApproved(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		code := rig.CodeIn(r.Post.All()[0])
		var valid atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if r.Check(a.View.ID, code).Valid {
					valid.Add(1)
				}
			})
		}
		wg.Wait()
		if valid.Load() != 1 {
			t.Errorf("%d approved", valid.Load())
		}
	})
}

func TestSecondRightAnswerIsNotApproved(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		r.Svc.Store = rig.Rival{Away: r.Store}
		if c := r.Check(a.View.ID, rig.CodeIn(r.Post.All()[0])); c.Valid || c.State != verification.Approved {
			t.Errorf("%+v", c)
		}
	})
}

func TestCodeDies(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		code := rig.CodeIn(r.Post.All()[0])
		rig.Waited(10*rig.Minute - time.Microsecond)
		if v := r.Get(a.View.ID); v.State != verification.Pending {
			t.Fatalf("a moment before the end: %s", v.State)
		}
		rig.Waited(time.Microsecond)
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.Expired {
			t.Errorf("after ten minutes: %+v", c)
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a check of a dead code counted: %d left", v.AttemptsRemaining)
		}
	})
}

func TestFailedResendKeepsTheCode(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		rig.Waited(rig.Minute)
		r.Post.Tell(rig.Failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.Send(rig.AskFor(rig.Ana))
		if v := r.Get(a.View.ID); v.Send.Number != 2 || v.Send.Status == store.Sent {
			t.Fatalf("the resend should have failed: %+v", v.Send)
		}
		if c := r.Check(a.View.ID, rig.CodeIn(r.Post.All()[0])); !c.Valid {
			t.Errorf("the code that arrived is dead: %+v", c)
		}
	})
}

func TestRotationBreaksNoLiveCode(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		code := rig.CodeIn(r.Post.All()[0])
		r.Svc.Use(vault.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: rig.RingOf(t, "k2:"+rig.NewKey+",k1:"+rig.OldKey)})
		if c := r.Check(a.View.ID, rig.WrongFor(code)); c.Valid {
			t.Error("a wrong code was approved")
		}
		if c := r.Check(a.View.ID, code); !c.Valid {
			t.Error("the key went to second place, and its code died")
		}
	})
}

func TestKeyThatLeftTheRing(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		r.Svc.Use(vault.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: rig.RingOf(t, "k2:"+rig.NewKey)})
		if _, err := r.Svc.Check(r.Context(), rig.BackEnd, a.View.ID, rig.CodeIn(r.Post.All()[0])); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Check: %v, want unavailable, not wrong", err)
		}
	})
}
