package verification

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
)

// NotMeTokenLife is how long after its send a mail can be reported.
const NotMeTokenLife = 24 * time.Hour

// MailedCode returns the verification whose mail has the token (keys.Vault.MailTokens). It changes
// nothing. Errors: fault.NotFound if the token is not ours or older than NotMeTokenLife, or if the
// recipient was erased; fault.Unavailable.
func (s *checkService) MailedCode(ctx context.Context, token string) (store.Verification, error) {
	var v store.Verification
	id, ok := s.Vault.SendOfNotMeToken(token)
	if !ok {
		return v, fault.NotFound
	}
	sends, now, err := s.Checks.SendsByID(ctx, []uuid.UUID{id})
	if err != nil {
		return v, err
	}
	if len(sends) == 0 || now.Sub(sends[0].LoggedAt) >= NotMeTokenLife {
		return v, fault.NotFound
	}
	v, _, err = s.Rows.VerificationRow(ctx, sends[0].VerificationID)
	if err == nil && len(v.Sealed) == 0 {
		err = fault.NotFound
	}
	return v, err
}

// ReportNotMe records that the recipient of a mail didn't request the code. The code becomes
// invalid unless it was already entered, and the app gets one event. The waits of the recipient's
// rules don't change. Errors: those of MailedCode.
func (s *checkService) ReportNotMe(ctx context.Context, token string) (store.Verification, error) {
	v, err := s.MailedCode(ctx, token)
	if err != nil {
		return v, err
	}
	event, err := s.Events.NewEvent(v, store.VerificationReported)
	if err != nil {
		return v, err
	}
	v, err = s.Checks.ReportNotMe(ctx, v.ID, event)
	s.Events.WakeForEvent(event)
	return v, err
}
