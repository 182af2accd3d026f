package support_test

import (
	"errors"
	"slices"
	"testing"
	"time"

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
			r.NoError(err)
			for _, row := range rows {
				to = append(to, row.To)
			}
			return to
		}
		if got := look(3); !slices.Equal(got, []string{"a•••@gmial.com", "a•••@gmail.com", "a•••@gmail.co"}) || !slices.Equal(look(1), got[:1]) {
			t.Errorf("near are %v, the newest is %v", got, look(1))
		}
	})
}

// Served names the reason for which a recipient is turned away before anything is written.
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
