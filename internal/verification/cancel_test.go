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
		named := func(n verification.Ask, code string) (verification.Checked, error) {
			n.Caller, n.Channel, n.To = vtest.BackEnd, "email", vtest.Ana
			return r.Svc.CheckNamed(r.Context(), n, code)
		}
		mine := vtest.AskFor(vtest.Ana)
		mine.Session = "s-1"
		a := r.Send(mine)
		code := r.Code(0)
		r.Sleep(time.Minute)
		theirs := vtest.AskFor(vtest.Ana)
		theirs.Caller = vtest.Browser
		b := r.Send(theirs)
		for _, n := range []verification.Ask{{}, {Session: "s-2"}, {Session: "s-1", Purpose: "login"}} {
			r.WantError(vtest.Err(named(n, code)), verification.ErrNotFound)
		}
		if c, err := named(verification.Ask{Session: "s-1"}, vtest.WrongCode(code)); err != nil || c.Valid || c.ID != a.View.ID ||
			c.AttemptsRemaining != verification.MaxAttempts-1 {
			t.Errorf("wrong code: %+v, %v", c, err)
		}
		if c, err := named(verification.Ask{Session: "s-1"}, code); err != nil || !c.Valid || c.ID != a.View.ID {
			t.Errorf("right code: %+v, %v", c, err)
		}
		r.WantError(vtest.Err(named(verification.Ask{Session: "s-1"}, code)), verification.ErrNotFound)
		if v := r.Get(b.View.ID); v.State != verification.Pending || v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("the browser's own was touched: %+v", v)
		}
	})
}

func TestCheckNamedRefuses(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		check := func(change func(*verification.Ask)) error {
			ask := anaByName
			change(&ask)
			return vtest.Err(r.Svc.CheckNamed(r.Context(), ask, "123456"))
		}
		r.WantError(check(func(a *verification.Ask) { a.Caller = vtest.Browser }), verification.ErrNotFound)
		r.WantError(check(func(a *verification.Ask) { a.App = "elsewhere" }), verification.ErrNotFound)
		r.WantInvalid(check(func(a *verification.Ask) { a.Channel = "" }), "channel", "")
		r.WantInvalid(check(func(a *verification.Ask) { a.To = "" }), "to", "")
		r.WantInvalid(check(func(a *verification.Ask) { a.Purpose = "none" }), "purpose", "")
		r.WantInvalid(vtest.Err(r.Svc.CheckNamed(r.Context(), anaByName, "12345x")), "code", "")
	})
}
