package verification_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// Each kind's lockout is told to the administrator. A browser that names a back end's verification goes by the back end's.
func TestLockoutsAreOfTheKindThatOpened(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		h, _ := r.Svc.Desk.Hash("email", vtest.Ana)
		told := func() (kinds []bool) {
			all, err := r.Svc.Lockouts(r.Context(), "shop", "email", h)
			r.NoError(err)
			for _, out := range all {
				kinds = append(kinds, out.ByBrowser)
			}
			return kinds
		}
		for range 4 {
			r.Guess(vtest.Browser, 5, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.WantLockedOut(byBrowser(vtest.Ana))
		id := r.SendTo(vtest.Ana).View.ID
		named := byBrowser("")
		named.Channel, named.Resend = "", id
		if a := r.Send(named); a.View.ID != id || a.View.Send.Number != 2 {
			t.Errorf("a browser that names it: %+v", a.View)
		}
		if kinds := told(); !slices.Equal(kinds, []bool{true}) {
			t.Errorf("locked out: %v", kinds)
		}
		for i := range 4 {
			ask := vtest.AskFor(vtest.Ana)
			ask.Session = fmt.Sprint(i)
			r.Guess(vtest.BackEnd, 5, r.Send(ask).View.ID)
		}
		if kinds := told(); !slices.Equal(kinds, []bool{true, false}) {
			t.Errorf("locked out: %v", kinds)
		}
	})
}

// ended is a log in which a lockout has ended between the try that met it and the look at it.
type ended struct{ *sqlite.DB }

func (ended) LockedOut(context.Context, store.Verification) (store.Lockout, error) {
	return store.Lockout{}, nil
}

// A check that meets a lockout is told a wait, also where it has just ended. The lockout is known to sends then: the log is not asked again.
func TestACheckMeetsALockout(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		for _, id := range ids[1:] {
			r.Guess(vtest.Browser, 5, id)
		}
		check := func(s *vtest.Service) time.Duration {
			_, err := s.Check(r.Context(), vtest.Browser, ids[0], "000000")
			var barred *verification.TooManyChecksError
			if !errors.As(err, &barred) {
				t.Fatal(err)
			}
			return barred.RetryAfter
		}
		if wait := check(r.ReplicaOn(ended{r.Store}, r.MailServer, r.Carrier)); wait != time.Second {
			t.Errorf("a lockout that has ended: wait %v", wait)
		}
		if wait := check(r.Svc); wait < 23*time.Hour {
			t.Errorf("wait %v", wait)
		}
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" {
				t.Error("a send asks the log")
			}
			return sqlite.None
		})
		r.WantLockedOut(byBrowser(vtest.Ana))
		r.MendStore()
	})
}

// The check that reaches an app's bound is within it: the next one alarms. A right code takes its own count back, so it never does.
func TestAnAppsBoundIsPassedByTheNextFailure(t *testing.T) {
	three := func(s *vtest.Settings) {
		s.Checks = vtest.Checks
		s.Checks.App.Limit = 3
	}
	vtest.InBubbleWith(t, three, func(r *vtest.Rig) {
		ears := r.CountChecks()
		browser := from("203.0.113.7")
		ask := byBrowser("ana@example.com")
		ask.Caller = browser
		id := r.Send(ask).View.ID
		r.Guess(browser, 2, id)
		if c, _, _ := r.Try(browser, id, r.LastCode()); !c.Valid { // the third, while it is compared
			t.Errorf("the right code: %+v", c)
		}
		other := byBrowser("bea@example.com")
		other.Caller = browser
		id = r.Send(other).View.ID
		if r.Guess(browser, 1, id); ears.Bounds["app"] != 0 {
			t.Errorf("%d alarms at the bound", ears.Bounds["app"])
		}
		if r.Guess(browser, 1, id); ears.Bounds["app"] != 1 {
			t.Errorf("%d alarms over the bound", ears.Bounds["app"])
		}
	})
}
