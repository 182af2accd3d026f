package outbox_test

import (
	"testing"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

// A send that ended while its mail waited for a worker is not sent. Its place is given back, but not where the recipient was erased: to
// be erased frees no quota.
func TestEndedWhileItWaited(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(r *vtest.Rig, id string) error
		reason string
		used   int
	}{
		"approved": {func(r *vtest.Rig, id string) error {
			return vtest.Err(r.Store.Approve(r.Context(), id, store.NewEvent{}))
		}, outbox.ReasonEnded, 0},
		"canceled": {func(r *vtest.Rig, id string) error { return vtest.Err(r.Store.Cancel(r.Context(), id)) }, outbox.ReasonEnded, 0},
		"erased": {func(r *vtest.Rig, _ string) error {
			return r.Svc.Desk.Erase(r.Context(), r.Person(), vtest.AuditEntry("erase"))
		}, store.ReasonErased, 1},
		"expired": {func(r *vtest.Rig, _ string) error { r.Sleep(10 * time.Minute); return nil }, outbox.ReasonExpired, 0},
		"expired, without a try left": {func(r *vtest.Rig, id string) (err error) {
			for range 5 {
				_, _, _, err = r.Store.Attempt(r.Context(), id)
			}
			r.Sleep(10 * time.Minute)
			return err
		}, outbox.ReasonExpired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Workers = 1 }, func(r *vtest.Rig) {
				release := make(chan struct{})
				r.MailServer.Answer(vtest.Hang(release))
				r.SendTo("first@example.com")
				a := r.SendTo(vtest.Ana)
				bucket := store.Bucket{
					App: "shop", Channel: "email", Recipient: r.Person().Recipient, Purposes: []string{"default", "login"},
				}
				r.Sleep(3 * time.Second)
				r.NoError(c.end(r, a.View.ID))
				close(release)
				r.Sleep(time.Second)
				r.WantStatus(a, "failed "+c.reason)
				r.WantMails(1)
				rows, _, err := r.Store.HistoryAt(r.Context(), bucket, time.Hour, store.LogClock, time.Time{})
				if used := r.QuotaOf("").Rules[1].Used; err != nil || used != c.used || len(rows) != c.used {
					t.Errorf("%d places of the hour are taken, the log counts %d, want %d; %v", used, len(rows), c.used, err)
				}
			})
		})
	}
}
