package support_test

import (
	"testing"
	"time"

	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A slip of the hand away, today, the newest first; another spelling of the same mailbox is no
// slip.
func TestLookalikes(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(vtest.FoldGmail), func(r *vtest.Rig) {
		for _, to := range []string{"ana@gmail.co", "a.na@gmail.com", "ana@qq.com", "anna@gmail.com", "ana@gmial.com"} {
			r.SendTo(to)
			r.Sleep(time.Minute)
		}
		look := func(most int) (to []string) {
			rows, err := r.Svc.Administration.SimilarRecipients(r.Context(), "email", "ana@gmail.com", most)
			r.NoError(err)
			for _, row := range rows {
				to = append(to, row.To)
			}
			return to
		}
		r.Want("near", look(3), "[a•••@gmial.com a•••@gmail.com a•••@gmail.co]")
		r.Want("the newest", look(1), "[a•••@gmial.com]")
	})
}

// TestValidateRecipient: it names the reason for which a recipient is turned away before anything
// is written.
func TestValidateRecipient(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) { s.Blocks.Disposable = map[string]bool{"short.example": true} })
	r.NoError(r.Svc.ValidateRecipient("email", "ana@gmail.com"))
	r.WantInvalid(r.Svc.ValidateRecipient("email", "ana@a.short.example"), "to", "disposable")
}
