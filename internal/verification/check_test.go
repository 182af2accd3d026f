package verification_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/vault"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// Five tries, of which the last may be right; afterwards no code is.
func TestCheckCountsThenCompares(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		fifth := r.SendTo("bea@example.com")
		for range verification.MaxAttempts - 1 {
			r.Check(fifth.View.ID, vtest.WrongCode(r.Code(0)))
		}
		for _, valid := range []bool{true, false} { // then it is used
			if c := r.Check(fifth.View.ID, r.Code(0)); c.Valid != valid || c.State != verification.Approved {
				t.Fatalf("%+v", c)
			}
		}
		a := r.SendTo(vtest.Ana)
		code := r.Code(1)
		for left := verification.MaxAttempts - 1; left > 0; left-- {
			if c := r.Check(a.View.ID, vtest.WrongCode(code)); c.Valid || c.State != verification.Pending || c.AttemptsRemaining != left {
				t.Fatalf("wrong code: %+v, want %d left", c, left)
			}
		}
		if c := r.Check(a.View.ID, vtest.WrongCode(code)); c.Valid || c.State != verification.MaxAttemptsReached {
			t.Fatalf("fifth wrong code: %+v", c)
		}
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.MaxAttemptsReached {
			t.Fatalf("the right code after five wrong ones: %+v", c)
		}
	})
}

func TestOneRightAnswerIsApproved(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
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

// rival is a log in which another caller's right answer is always a moment earlier.
type rival struct{ *sqlite.DB }

func (l rival) Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error) {
	if _, err := l.DB.Approve(ctx, id, store.NewEvent{}); err != nil {
		return false, err
	}
	return l.DB.Approve(ctx, id, tell)
}

func TestSecondRightAnswerIsNotApproved(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		r.Svc.Store = rival{r.Store}
		if c := r.Check(a.View.ID, r.Code(0)); c.Valid || c.State != verification.Approved {
			t.Errorf("%+v", c)
		}
	})
}

func TestCodeDies(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Sleep(10*time.Minute - time.Microsecond)
		if v := r.Get(a.View.ID); v.State != verification.Pending {
			t.Fatalf("a moment before the end: %s", v.State)
		}
		r.Sleep(time.Microsecond)
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.Expired {
			t.Errorf("after ten minutes: %+v", c)
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a check of a dead code counted: %d left", v.AttemptsRemaining)
		}
	})
}

func TestFailedResendKeepsTheCode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		if v := r.Get(a.View.ID); v.Send.Number != 2 || v.Send.Status == store.Sent {
			t.Fatalf("the resend should have failed: %+v", v.Send)
		}
		r.WantApproved(a.View.ID, r.Code(0))
	})
}

func TestRotationBreaksNoLiveCode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Svc.Use(vault.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(t, "k2:"+vtest.NewKey+",k1:"+vtest.OldKey)})
		if c := r.Check(a.View.ID, vtest.WrongCode(code)); c.Valid {
			t.Error("a wrong code was approved")
		}
		r.WantApproved(a.View.ID, code)
	})
}

// attempts is a log that notes for which verifications tries are counted.
type attempts struct {
	*sqlite.DB
	of     []string
	before func() // a try is counted
}

func (a *attempts) Attempt(ctx context.Context, id string) (store.Verification, bool, time.Time, error) {
	a.of = append(a.of, id)
	if a.before != nil {
		a.before()
	}
	return a.DB.Attempt(ctx, id)
}

// A check of an unknown ID goes to the log as often as one of a known ID does, so that its time does not tell which it is.
func TestAnUnknownIDIsCheckedInTheSameTrips(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		log := &attempts{DB: r.Store}
		r.Svc.Store = log
		a := r.SendTo(vtest.Ana)
		r.Check(a.View.ID, vtest.WrongCode(r.LastCode()))
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, "unknown", "123456")), verification.ErrNotFound)
		if len(log.of) != 2 || log.of[0] != a.View.ID || log.of[1] != "" {
			t.Errorf("tries were counted for %q", log.of)
		}
	})
}

// A client that hangs up after its check has begun stops nothing: the try counts, and the right code is approved. A check of a code
// that is used asks no log to count anything.
func TestAHangUpStopsNoCheck(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		ctx, hangUp := context.WithCancel(r.Context())
		log := &attempts{DB: r.Store, before: hangUp}
		r.Svc.Store = log
		if c, err := r.Svc.Check(ctx, vtest.BackEnd, a.View.ID, r.LastCode()); err != nil || !c.Valid || c.State != verification.Approved {
			t.Errorf("%+v, %v", c, err)
		}
		if c := r.Check(a.View.ID, r.LastCode()); c.Valid || c.State != verification.Approved || len(log.of) != 1 {
			t.Errorf("used again: %+v, %d tries", c, len(log.of))
		}
	})
}
