package support_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// An acceptance is valid for one subscription of one provider, for an hour. A failed confirmation
// can be repeated.
func TestAcceptedSubscriptions(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(nil), func(r *vtest.Rig) {
		calls, failing := 0, error(nil)
		ask := func(provider string, wantAccepted bool, wantCalls int) {
			t.Helper()
			accepted, err := r.Svc.Administration.ConfirmSubscription(r.Context(), provider, func(context.Context) error {
				calls++
				return failing
			})
			if accepted != wantAccepted || calls != wantCalls || !errors.Is(err, failing) {
				t.Errorf("%s: accepted %v, called %d times, %v", provider, accepted, calls, err)
			}
		}
		accept := func() {
			t.Helper()
			r.NoError(r.Svc.Administration.AllowSubscription(r.Context(), "ses", "ticket 7", vtest.AuditEntry("subscription.accept")))
		}
		ask("ses", false, 0)
		accept()
		ask("other", false, 0)
		failing = errors.New("no answer")
		ask("ses", true, 1)
		failing = nil
		ask("ses", true, 2)
		ask("ses", false, 2)
		list, err := r.Store.AuditEntries(r.Context(), store.AuditFilter{Limit: 9})
		r.NoError(err)
		vtest.Equal(r, "entries", len(list), 2)
		vtest.Equal(r, "the first: Outcome", list[0].Outcome, "done")
		vtest.Equal(r, "the first: Who", list[0].Who, "mei")
		vtest.Equal(r, "the first: Target", list[0].Target, "ses")
		vtest.Equal(r, "the first: Reason", list[0].Reason, "ticket 7")
		vtest.Equal(r, "the first: Completes", list[0].Completes, list[1].ID)
		vtest.Equal(r, "the second: Outcome", list[1].Outcome, "begun")
		accept()
		r.Sleep(time.Hour + time.Second)
		ask("ses", false, 2)
		accept()
		r.Sleep(time.Hour)
		ask("ses", true, 3)

		err = r.Svc.Administration.AllowSubscription(r.Context(), "ses", "for ana@example.com", vtest.AuditEntry("subscription.accept"))
		if _, bad := errors.AsType[*fault.InvalidError](err); !bad {
			t.Errorf("a reason with an address: %v", err)
		}
		accept()
		r.FailStore(sqlitetest.Down, "AuditEntries")
		if accepted, err := r.Svc.Administration.ConfirmSubscription(r.Context(), "ses",
			func(context.Context) error { panic("confirmed") }); accepted || !errors.Is(err, fault.Unavailable) {
			t.Errorf("%v, %v", accepted, err)
		}
	})
}
