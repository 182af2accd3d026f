package outbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

// What ended while its mail waited for a worker is not sent. Its place is given back, but not where the recipient was erased: to be erased
// frees no quota.
func TestEndedWhileItWaited(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(r *vtest.Rig, id string)
		reason string
		used   int
	}{
		"approved": {func(r *vtest.Rig, id string) {
			r.NoError(vtest.Err(r.Store.Approve(r.Context(), id, store.NewEvent{})))
		}, outbox.ReasonEnded, 0},
		"canceled": {func(r *vtest.Rig, id string) { _, err := r.Store.Cancel(r.Context(), id); r.NoError(err) }, outbox.ReasonEnded, 0},
		"erased": {func(r *vtest.Rig, _ string) {
			r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), vtest.AuditEntry("erase")))
		}, store.ReasonErased,
			1},
		"expired": {func(r *vtest.Rig, _ string) { r.Sleep(10 * time.Minute) }, outbox.ReasonExpired, 0},
		"expired, without a try left": {func(r *vtest.Rig, id string) {
			for range 5 {
				_, _, _, err := r.Store.Attempt(r.Context(), id)
				r.NoError(err)
			}
			r.Sleep(10 * time.Minute)
		}, outbox.ReasonExpired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Workers = 1 }, func(r *vtest.Rig) {
				release := make(chan struct{})
				r.MailServer.Answer(vtest.Hang(release))
				r.NoError(r.SendError(vtest.AskFor("first@example.com")))
				synctest.Wait()
				a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
				r.NoError(err)
				r.Sleep(3 * time.Second)
				c.end(r, a.View.ID)
				close(release)
				r.Sleep(time.Second)
				if s := r.Get(a.View.ID).Send; s.Status != store.Failed || s.Reason != c.reason {
					t.Errorf("%s %s", s.Status, s.Reason)
				}
				if n := len(r.MailServer.All()); n != 1 {
					t.Errorf("%d mails", n)
				}
				d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
				r.NoError(err)
				if used := d.Quota.Rules[1].Used; used != c.used {
					t.Errorf("%d places of the hour are taken, want %d", used, c.used)
				}
				rows, _, err := r.Store.HistoryAt(r.Context(), store.Bucket{
					App: "shop", Channel: "email", Recipient: r.Person().Recipient, Purposes: []string{"default", "login"},
				}, time.Hour, store.LogClock, time.Time{})
				r.NoError(err)
				if len(rows) != c.used {
					t.Errorf("the log counts %d, want %d", len(rows), c.used)
				}
			})
		})
	}
}
