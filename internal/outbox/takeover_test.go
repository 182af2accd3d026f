package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

// A process that was killed between the 202 and the mail never comes back; another takes its send over.
func TestCrashIsTakenOver(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, nil)
		release := make(chan struct{})
		dead := &rig.Postbox{}
		dead.Tell(rig.Hanging(release))
		crashed := r.Replica(dead) // never runs: it renews nothing
		a, err := crashed.Send(r.Context(), rig.AskFor(rig.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Start()
		rig.Waited(10 * time.Second)
		mails := r.Post.All()
		if len(mails) != 1 || mails[0].ID != dead.All()[0].ID || rig.CodeIn(mails[0]) != rig.CodeIn(dead.All()[0]) {
			t.Fatalf("after ten seconds: %d mails", len(mails))
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent || s.Attempt != 2 {
			t.Errorf("%+v", s)
		}
		close(release) // the sleeper wakes and has nothing to say any more
		rig.Waited(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent || s.Attempt != 2 || s.Provider != "mx.example" {
			t.Errorf("the sleeper changed something: %+v", s)
		}
		r.Quit()
	})
}

// The sleeper's mail was refused while another replica delivered: no refund, no step back.
func TestSleeperChangesNothing(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, nil)
		release := make(chan struct{})
		asleep := &rig.Postbox{}
		asleep.Tell(func(ctx context.Context) error {
			<-release
			return rig.Failing(delivery.Rejected, "rcpt", 550, "5.1.1")(ctx)
		})
		sleeper := r.Replica(asleep)
		a, err := sleeper.Send(r.Context(), rig.AskFor(rig.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Start()
		rig.Waited(20 * time.Second)
		close(release)
		rig.Waited(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		r.Refuse(rig.AskFor(rig.Ana))
		r.Quit()
	})
}

// A row whose first attempt ended in silence may have been delivered, so its place stays spent.
func TestDoubtIsNotRefunded(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, nil)
		release := make(chan struct{})
		dead := &rig.Postbox{}
		dead.Tell(rig.Hanging(release))
		if a, err := r.Replica(dead).Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Post.Tell(rig.Failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.Start()
		rig.Waited(20 * time.Second)
		r.Refuse(rig.AskFor(rig.Ana))
		close(release)
		r.Quit()
	})
}

// The mail is out, and the log is away: no process sends it again, however long that lasts.
func TestOutcomeOutlivesTheLogsAbsence(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		gone := make(chan struct{})
		r.Post.Tell(func(context.Context) error { r.Store.Set(true); <-gone; return nil })
		a := r.Send(rig.AskFor(rig.Ana))
		close(gone)
		rig.Waited(30 * time.Second)
		r.Store.Set(false)
		rig.Waited(30 * time.Second)
		if n := len(r.Post.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
	})
}

// Another replica must not take over at once when the log comes back: no process crashed.
func TestNoTakeoverRightAfterAnOutage(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		release := make(chan struct{})
		slow := &rig.Postbox{}
		slow.Tell(rig.Hanging(release))
		r.Settings.Tick = time.Hour // it renews, but does not look around: the first to look is r
		other := r.Replica(slow)
		ctx, stop := context.WithCancel(r.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); other.Run(ctx) }()
		if a, err := other.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		rig.Waited(20 * time.Second) // the lease is renewed
		if n := len(r.Post.All()); n != 0 {
			t.Fatalf("a living replica's send was taken over")
		}
		r.Store.Set(true)
		rig.Waited(20 * time.Second)
		r.Store.Set(false)
		rig.Waited(3 * time.Second)
		close(release)
		rig.Waited(20 * time.Second)
		if n := len(r.Post.All()) + len(slow.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
		stop()
		<-ended
	})
}

// Once the lease after an outage has passed, takeovers go on as ever.
func TestTakeoverGoesOnAfterAnOutage(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Store.Set(true)
		rig.Waited(5 * time.Second)
		r.Store.Set(false)
		rig.Waited(2 * time.Second)
		dead, release := &rig.Postbox{}, make(chan struct{})
		dead.Tell(rig.Hanging(release))
		if a, err := r.Replica(dead).Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		rig.Waited(2*outbox.DefaultLease + 2*outbox.DefaultTick)
		if n := len(r.Post.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
		close(release)
	})
}

// A send that the log let in alone, and whose process did not hear of it, is told to the limiter by the process that takes it over.
func TestTakeoverTellsTheLimiterOfASendThatTheLogLetIn(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		m := quota.NewMemory(time.Now, "process")
		r.Limiter.Set(m)
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(rig.Minute)
		r.Looked(r.Svc) // from now on the limiter is asked alone
		r.Limiter.Set(rig.NoLimiter{Memory: m})
		r.BreakStore("Begin", sqlite.Lost)
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUncertain) {
			t.Fatalf("%v", err)
		}
		r.Store.SetFault(nil)
		r.Limiter.Set(m)
		rig.Waited(15 * time.Second)
		r.Mails(2)
		r.Says("afterwards", r.Looked(r.Svc), "[0 3 8]", 45*time.Second)
	})
}
