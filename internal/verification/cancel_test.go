package verification_test

import (
	"errors"
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
		if _, err := r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
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
			if _, err := named(n, code); !errors.Is(err, verification.ErrNotFound) {
				t.Errorf("%+v: %v", n, err)
			}
		}
		if c, err := named(verification.Named{Session: "s-1"}, vtest.WrongCode(code)); err != nil || c.Valid || c.ID != a.View.ID ||
			c.AttemptsRemaining != verification.MaxAttempts-1 {
			t.Errorf("wrong code: %+v, %v", c, err)
		}
		if c, err := named(verification.Named{Session: "s-1"}, code); err != nil || !c.Valid || c.ID != a.View.ID {
			t.Errorf("right code: %+v, %v", c, err)
		}
		if _, err := named(verification.Named{Session: "s-1"}, code); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("used: %v", err)
		}
		if v := r.Get(b.View.ID); v.State != verification.Pending || v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("the browser's own was touched: %+v", v)
		}
	})
}

func TestCheckNamedRefuses(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		good := verification.Named{Channel: "email", To: vtest.Ana}
		if _, err := r.Svc.CheckNamed(r.Context(), vtest.Browser, good, "123456"); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("a browser: %v", err)
		}
		other := vtest.BackEnd
		other.App = "elsewhere"
		if _, err := r.Svc.CheckNamed(r.Context(), other, good, "123456"); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("another app: %v", err)
		}
		for field, n := range map[string]verification.Named{"channel": {To: vtest.Ana}, "to": {Channel: "email"},
			"purpose": {Channel: "email", To: vtest.Ana, Purpose: "none"}} {
			var bad *verification.InvalidError
			if _, err := r.Svc.CheckNamed(r.Context(), vtest.BackEnd, n, "123456"); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		var bad *verification.InvalidError
		if _, err := r.Svc.CheckNamed(r.Context(), vtest.BackEnd, good, "12345x"); !errors.As(err, &bad) || bad.Field != "code" {
			t.Errorf("code: %v", err)
		}
	})
}
