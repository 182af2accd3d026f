package outbox_test

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

// An outcome that comes after another replica has taken the send over changes nothing, neither in the log nor in the limiter.
func TestALateOutcomeChangesNothing(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, vtest.BoundFailures)
		release, post := make(chan struct{}), &vtest.MailServer{}
		rejected := vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1")
		post.Answer(func(ctx context.Context) error { <-release; return rejected(ctx) })
		a, err := r.Replica(post).Send(r.Context(), vtest.AskFor(vtest.Ana))
		r.NoError(err)
		r.Start()
		r.Sleep(20 * time.Second)
		close(release)
		r.Sleep(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%s %s", s.Status, s.Reason)
		}
		if n := failures(r); n != 0 {
			t.Errorf("%d failures are counted", n)
		}
		d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
		r.NoError(err)
		if used := d.Quota.Rules[0].Used; used != 1 {
			t.Errorf("%d places are taken", used)
		}
		r.Quit()
	})
}

// The log is asked again within a second once it is back, however long it was away.
func TestAnOutcomeIsWrittenSoonAfterAnOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
		r.NoError(err)
		r.Sleep(time.Second)
		r.Store.Cut(true)
		close(release)
		r.Sleep(3 * time.Minute)
		r.Store.Cut(false)
		r.Sleep(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%s", s.Status)
		}
	})
}
