package support_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// A slip of the hand away, today, the newest first; another spelling of the same mailbox is no slip.
func TestLookalikes(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(vtest.FoldGmail), func(r *vtest.Rig) {
		for _, to := range []string{"ana@gmail.co", "a.na@gmail.com", "ana@qq.com", "anna@gmail.com", "ana@gmial.com"} {
			r.SendTo(to)
			r.Sleep(time.Minute)
		}
		look := func(most int) (to []string) {
			rows, err := r.Svc.Desk.NearSpellings(r.Context(), "email", "ana@gmail.com", most)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				to = append(to, row.To)
			}
			return to
		}
		if got := look(3); len(got) != 3 || got[0] != "a•••@gmial.com" || got[1] != "a•••@gmail.com" || got[2] != "a•••@gmail.co" {
			t.Errorf("near are %v", got)
		}
		if got := look(1); len(got) != 1 || got[0] != "a•••@gmial.com" {
			t.Errorf("the newest is %v", got)
		}
		r.Sleep(24 * time.Hour)
		if got := look(3); len(got) != 0 {
			t.Errorf("a day later: %v", got)
		}
		var bad *verification.InvalidError
		if _, err := r.Svc.Desk.NearSpellings(r.Context(), "email", "ana@", 3); !errors.As(err, &bad) {
			t.Errorf("no address: %v", err)
		}
		r.Store.SetFault(func(string) sqlite.Fault { return sqlite.Down })
		if _, err := r.Svc.Desk.NearSpellings(r.Context(), "email", "ana@gmail.com", 3); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
	})
}

// Who is turned away before anything is written is told apart from who is served.
func TestServed(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) { s.Blocks.Disposable = map[string]bool{"short.example": true} })
	for to, want := range map[string]string{"ana@gmail.com": "", "ana@short.example": "disposable", "ana@a.short.example": "disposable"} {
		var bad *verification.InvalidError
		err := r.Svc.Served("email", to)
		if errors.As(err, &bad) != (want != "") || bad != nil && bad.Reason != want {
			t.Errorf("%s: %v", to, err)
		}
	}
}
