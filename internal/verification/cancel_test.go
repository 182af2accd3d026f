package verification_test

import (
	"testing"
	"time"

	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

func TestCancelEndsACode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		for range 2 { // repeating is harmless
			if v := r.Cancel(a.View.ID); v.State != verification.Canceled || v.ID != a.View.ID {
				t.Fatalf("%+v", v)
			}
		}
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.Canceled {
			t.Errorf("the right code of a canceled one: %+v", c)
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a check of a canceled one counted: %d left", v.AttemptsRemaining)
		}
		r.Sleep(time.Minute)
		again := r.Send(verification.Ask{Caller: vtest.BackEnd, Resend: a.View.ID})
		r.Check(again.View.ID, r.LastCode())
		if v := r.Cancel(again.View.ID); v.State != verification.Approved {
			t.Errorf("canceled after it was approved: %+v", v)
		}
		r.FailStore(sqlite.Down, "Cancel")
		r.WantError(vtest.Err(r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID)), verification.ErrUnavailable)
		r.MendStore()
		if again.View.ID == a.View.ID || r.Code(1) == code {
			t.Error("a canceled code was sent again")
		}
	})
}

func TestCheckNamedMeansTheHoldersNewest(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		named := func(n verification.Named, code string) (verification.Checked, error) {
			n.Channel, n.To = "email", vtest.Ana
			return r.Svc.CheckNamed(r.Context(), vtest.BackEnd, n, code)
		}
		mine := vtest.AskFor(vtest.Ana)
		mine.Session = "s-1"
		a := r.Send(mine)
		code := r.Code(0)
		r.Sleep(time.Minute)
		theirs := vtest.AskFor(vtest.Ana)
		theirs.Caller = vtest.Browser
		b := r.Send(theirs)
		for _, n := range []verification.Named{{}, {Session: "s-2"}, {Session: "s-1", Purpose: "login"}} {
			r.WantError(vtest.Err(named(n, code)), verification.ErrNotFound)
		}
		if c, err := named(verification.Named{Session: "s-1"}, vtest.WrongCode(code)); err != nil || c.Valid || c.ID != a.View.ID ||
			c.AttemptsRemaining != verification.MaxAttempts-1 {
			t.Errorf("wrong code: %+v, %v", c, err)
		}
		if c, err := named(verification.Named{Session: "s-1"}, code); err != nil || !c.Valid || c.ID != a.View.ID {
			t.Errorf("right code: %+v, %v", c, err)
		}
		r.WantError(vtest.Err(named(verification.Named{Session: "s-1"}, code)), verification.ErrNotFound)
		if v := r.Get(b.View.ID); v.State != verification.Pending || v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("the browser's own was touched: %+v", v)
		}
	})
}

func TestCheckNamedRefuses(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		check := func(c verification.Caller, n verification.Named, code string) error {
			return vtest.Err(r.Svc.CheckNamed(r.Context(), c, n, code))
		}
		other := vtest.BackEnd
		other.App = "elsewhere"
		r.WantError(check(vtest.Browser, anaByName, "123456"), verification.ErrNotFound)
		r.WantError(check(other, anaByName, "123456"), verification.ErrNotFound)
		r.WantInvalid(check(vtest.BackEnd, verification.Named{To: vtest.Ana}, "123456"), "channel", "")
		r.WantInvalid(check(vtest.BackEnd, verification.Named{Channel: "email"}, "123456"), "to", "")
		r.WantInvalid(check(vtest.BackEnd, verification.Named{Channel: "email", To: vtest.Ana, Purpose: "none"}, "123456"), "purpose", "")
		r.WantInvalid(check(vtest.BackEnd, anaByName, "12345x"), "code", "")
	})
}
