package verification

import (
	"context"

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
)

// Report records the outcome of a code that a back end checks itself: store.ReportApproved or
// store.ReportFailed. A repeated report changes nothing. A failed code can become approved. An
// approved code stays approved. Errors: *fault.InvalidError, fault.NotFound, ErrOurCode,
// fault.Unavailable.
func (s *checkService) Report(ctx context.Context, c Caller, id, outcome string) (store.Verification, error) {
	v, err := s.lookup(ctx, c, id)
	if err != nil {
		return store.Verification{}, err
	}
	return s.report(ctx, c, v.Verification, outcome)
}

// ReportByRecipient is Report for a back end that doesn't know the verification's ID, such as one
// whose auth server requests codes through a hook. It reports on the code that was last reported
// with ask.IdempotencyKey, or else on the recipient's newest code that is neither reported nor
// canceled, or else on the newest code. Errors: those of Report.
func (s *checkService) ReportByRecipient(ctx context.Context, ask Request, outcome string) (store.Verification, error) {
	r, err := s.parseRequest(ctx, ask)
	if err != nil {
		return store.Verification{}, err
	}
	v, err := s.Checks.NewestCallerCode(ctx, store.RecipientVerificationsQuery{
		App: r.App, Channel: r.to.Channel(), Recipient: r.plan.Recipient,
		Purpose: r.plan.Purpose.Name, CheckKey: s.reportKey(r.Caller),
	})
	if err != nil {
		return store.Verification{}, err
	}
	return s.report(ctx, r.Caller, v, outcome)
}

func (s *checkService) report(ctx context.Context, c Caller, v store.Verification, outcome string) (store.Verification, error) {
	r := store.Report(outcome)
	switch {
	case len(v.Sealed) == 0: // erased
		return v, fault.NotFound
	case !v.CallerChecks:
		return v, ErrOurCode
	case r != store.ReportApproved && r != store.ReportFailed:
		return v, fault.Invalid("outcome", "invalid", "An outcome is approved or failed.")
	}
	kind := store.VerificationApproved
	if r == store.ReportFailed { // a failure is an event only after the code's end
		kind = store.VerificationExpired
	}
	event, err := s.Events.NewEvent(v, kind)
	if err != nil {
		return v, err
	}
	if v, err = s.Checks.Report(ctx, v.ID, r, s.reportKey(c), event); err == nil {
		s.Events.WakeForEvent(event)
	}
	return v, err
}

func (s *checkService) reportKey(c Caller) []byte {
	if c.IdempotencyKey == "" {
		return nil
	}
	key := s.idempotencyKeyHash(reportKeyLabel, c)
	return key[:]
}

// Cancel ends a verification that is pending or has no attempts left: its code is never accepted or
// sent again. Other verifications stay as they are, so a repeated Cancel is harmless. Errors:
// fault.NotFound, fault.Unavailable.
func (s *checkService) Cancel(ctx context.Context, c Caller, id string) (Answer, error) {
	v, err := s.lookup(ctx, c, id)
	if err != nil {
		return Answer{}, err
	}
	// Without attempts left, a code can still be canceled. The store confirms the cancellation of a
	// canceled code.
	if state := v.state(); state == Pending || state == MaxAttemptsReached || state == Canceled {
		err = cancel(ctx, s.Checks, s.Events, v.Verification)
	}
	if err != nil {
		return Answer{}, err
	}
	return s.Get(ctx, c, id)
}

func cancel(ctx context.Context, db cancelStore, events webhook.Events, v store.Verification) error {
	event, err := events.NewEvent(v, store.VerificationCanceled)
	if err == nil {
		_, err = db.Cancel(ctx, v.ID, event)
	}
	events.WakeForEvent(event)
	return err
}
