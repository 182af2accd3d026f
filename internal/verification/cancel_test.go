package verification

import (
	"errors"
	"testing"

	"sendcode/internal/store/sqlite"
)

func (r *rig) cancel(id string) View {
	r.Helper()
	a, err := r.svc.Cancel(r.Context(), backEnd, id)
	if err != nil {
		r.Fatalf("Cancel: %v", err)
	}
	return a.View
}

func TestCancelEndsACode(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		for range 2 { // repeating is harmless
			if v := r.cancel(a.View.ID); v.State != Canceled || v.ID != a.View.ID {
				t.Fatalf("%+v", v)
			}
		}
		if c := r.check(a.View.ID, code); c.Valid || c.State != Canceled {
			t.Errorf("the right code of a canceled one: %+v", c)
		}
		if v := r.get(a.View.ID); v.AttemptsRemaining != maxAttempts {
			t.Errorf("a check of a canceled one counted: %d left", v.AttemptsRemaining)
		}
		waited(minute)
		again := r.send(Ask{Caller: backEnd, Resend: a.View.ID})
		if again.View.ID == a.View.ID || codeIn(r.post.all()[1]) == code {
			t.Error("a canceled code was sent again")
		}
	})
}

func TestCancelLeavesTheApproved(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		r.check(a.View.ID, codeIn(r.post.all()[0]))
		if v := r.cancel(a.View.ID); v.State != Approved {
			t.Errorf("%+v", v)
		}
	})
}

func TestCancelIsTheAppsOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		for _, id := range []string{a.View.ID, "unknown"} {
			if _, err := r.svc.Cancel(r.Context(), Caller{App: "elsewhere", Kind: Secret}, id); !errors.Is(err, ErrNotFound) {
				t.Errorf("Cancel: %v", err)
			}
		}
		if v := r.get(a.View.ID); v.State != Pending {
			t.Errorf("a stranger canceled: %+v", v)
		}
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Cancel" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if _, err := r.svc.Cancel(r.Context(), backEnd, a.View.ID); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
	})
}

func TestCheckNamedMeansTheHoldersNewest(t *testing.T) {
	inBubble(t, func(r *rig) {
		named := func(n Named, code string) (Checked, error) {
			n.Channel, n.To = "email", ana
			return r.svc.CheckNamed(r.Context(), backEnd, n, code)
		}
		mine := askFor(ana)
		mine.Session = "s-1"
		a := r.send(mine)
		code := codeIn(r.post.all()[0])
		waited(minute)
		theirs := askFor(ana)
		theirs.Caller = browser
		b := r.send(theirs)
		for _, n := range []Named{{}, {Session: "s-2"}, {Session: "s-1", Purpose: "login"}} {
			if _, err := named(n, code); !errors.Is(err, ErrNotFound) {
				t.Errorf("%+v: %v", n, err)
			}
		}
		if c, err := named(Named{Session: "s-1"}, wrongFor(code)); err != nil || c.Valid || c.ID != a.View.ID || c.AttemptsRemaining != maxAttempts-1 {
			t.Errorf("wrong code: %+v, %v", c, err)
		}
		if c, err := named(Named{Session: "s-1"}, code); err != nil || !c.Valid || c.ID != a.View.ID {
			t.Errorf("right code: %+v, %v", c, err)
		}
		if _, err := named(Named{Session: "s-1"}, code); !errors.Is(err, ErrNotFound) {
			t.Errorf("used: %v", err)
		}
		if v := r.get(b.View.ID); v.State != Pending || v.AttemptsRemaining != maxAttempts {
			t.Errorf("the browser's own was touched: %+v", v)
		}
	})
}

func TestCheckNamedRefuses(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		good := Named{Channel: "email", To: ana}
		if _, err := r.svc.CheckNamed(r.Context(), browser, good, "123456"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a browser: %v", err)
		}
		other := backEnd
		other.App = "elsewhere"
		if _, err := r.svc.CheckNamed(r.Context(), other, good, "123456"); !errors.Is(err, ErrNotFound) {
			t.Errorf("another app: %v", err)
		}
		for field, n := range map[string]Named{"channel": {To: ana}, "to": {Channel: "email"}, "purpose": {Channel: "email", To: ana, Purpose: "none"}} {
			var bad *InvalidError
			if _, err := r.svc.CheckNamed(r.Context(), backEnd, n, "123456"); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		var bad *InvalidError
		if _, err := r.svc.CheckNamed(r.Context(), backEnd, good, "12345x"); !errors.As(err, &bad) || bad.Field != "code" {
			t.Errorf("code: %v", err)
		}
	})
}
