package audit

import (
	"context"
	"time"
)

// The two ways in which a verification is ended. Both change one that is open, and nothing else; they differ in what they
// write down.

// approvedStatus is what an event says of a verification.
const approvedStatus = "approved"

// Approve implements Log.
func (m *Memory) Approve(ctx context.Context, id string, tell Tell) (bool, error) {
	if err := tell.check(); err != nil {
		return false, err
	}
	return m.end(ctx, "Approve", id, func(v *Verification, now time.Time) {
		v.ApprovedAt = now
		m.tell(tell, AppEvent{App: v.App, VerificationID: v.ID, Status: approvedStatus}, now)
	})
}

// Cancel implements Log.
func (m *Memory) Cancel(ctx context.Context, id string) (bool, error) {
	return m.end(ctx, "Cancel", id, func(v *Verification, now time.Time) { v.CanceledAt = now })
}

// late is an act on a verification that had ended.
func (a Act) late() Act {
	a.Outcome, a.Detail = ActFailed, "ended"
	return a
}

// CancelBy implements Log.
func (m *Memory) CancelBy(ctx context.Context, id string, act Act) (ok bool, err error) {
	if act, err = act.checked(); err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "CancelBy")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	if v, found := m.verifications[id]; found && open(*v, now) {
		v.CanceledAt, ok = now, true
	} else {
		act = act.late()
	}
	m.addAct(act, now)
	return ok, nil
}

func (m *Memory) end(ctx context.Context, method, id string, set func(v *Verification, now time.Time)) (ok bool, err error) {
	now, lost, err := m.enter(ctx, method)
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	v, found := m.verifications[id]
	if !found || !open(*v, now) {
		return false, nil
	}
	set(v, now)
	return true, nil
}
