package outbox_test

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/verification/rig"
)

// An outcome that comes after another replica has taken the send over changes nothing, neither in the log nor in the limiter.
func TestALateOutcomeChangesNothing(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, rig.Hammered)
		release, post := make(chan struct{}), &rig.Postbox{}
		rejected := rig.Failing(delivery.Rejected, "rcpt", 550, "5.1.1")
		post.Tell(func(ctx context.Context) error { <-release; return rejected(ctx) })
		a, err := r.Replica(post).Send(r.Context(), rig.AskFor(rig.Ana))
		r.NoError(err)
		r.Start()
		rig.Waited(20 * time.Second)
		close(release)
		rig.Waited(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%s %s", s.Status, s.Reason)
		}
		if n := failures(r); n != 0 {
			t.Errorf("%d failures are counted", n)
		}
		d, err := r.Svc.Quota(r.Context(), rig.BackEnd, "email", rig.Ana, "")
		r.NoError(err)
		if used := d.Quota.Rules[0].Used; used != 1 {
			t.Errorf("%d places are taken", used)
		}
		r.Quit()
	})
}

// The log is asked again within a second once it is back, however long it was away.
func TestAnOutcomeIsWrittenSoonAfterAnOutage(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		release := make(chan struct{})
		r.Post.Tell(rig.Hanging(release))
		a, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana))
		r.NoError(err)
		rig.Waited(time.Second)
		r.Store.Set(true)
		close(release)
		rig.Waited(3 * time.Minute)
		r.Store.Set(false)
		rig.Waited(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%s", s.Status)
		}
	})
}
