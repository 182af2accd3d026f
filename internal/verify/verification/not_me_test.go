package verification_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A mail can be reported until a day after it was logged, also once its code has expired.
func TestReportNotMeForADay(t *testing.T) {
	vtest.InBubbleWith(t, vtest.DayTick(wide), func(r *vtest.Rig) {
		send := r.SendTo(vtest.Ana).View.Send
		_, token, err := r.Svc.Vault.MailTokens(uuid.MustParse(send.ID), r.Svc.Vault.Ring.CurrentID())
		r.NoError(err)
		r.Sleep(time.Until(send.At.Add(verification.NotMeTokenLife - time.Millisecond)))
		r.NoError(vtest.Err(r.Svc.MailedCode(r.Context(), token)))
		r.Sleep(time.Millisecond)
		r.WantError(vtest.Err(r.Svc.ReportNotMe(r.Context(), token)), fault.NotFound)
	})
}
