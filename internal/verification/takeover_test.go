package verification

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/store"
)

// A process that was killed between the 202 and the mail never comes back; another takes its send over.
func TestCrashIsTakenOver(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		release := make(chan struct{})
		dead := &postbox{}
		dead.tell(hanging(release))
		crashed := r.replica(dead) // never runs: it renews nothing
		a, err := crashed.Send(r.Context(), askFor(ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.run()
		waited(10 * time.Second)
		mails := r.post.all()
		if len(mails) != 1 || mails[0].ID != dead.all()[0].ID || codeIn(mails[0]) != codeIn(dead.all()[0]) {
			t.Fatalf("after ten seconds: %d mails", len(mails))
		}
		if s := r.get(a.View.ID).Send; s.Status != store.Sent || s.Attempt != 2 {
			t.Errorf("%+v", s)
		}
		close(release) // the sleeper wakes and has nothing to say any more
		waited(time.Second)
		if s := r.get(a.View.ID).Send; s.Status != store.Sent || s.Attempt != 2 || s.Provider != "mx.example" {
			t.Errorf("the sleeper changed something: %+v", s)
		}
		r.quit()
	})
}

// The sleeper's mail was refused while another replica delivered: no refund, no step back.
func TestSleeperChangesNothing(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		release := make(chan struct{})
		asleep := &postbox{}
		asleep.tell(func(ctx context.Context) error {
			<-release
			return failing(delivery.Rejected, "rcpt", 550, "5.1.1")(ctx)
		})
		sleeper := r.replica(asleep)
		a, err := sleeper.Send(r.Context(), askFor(ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.run()
		waited(20 * time.Second)
		close(release)
		waited(time.Second)
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		r.refuse(askFor(ana))
		r.quit()
	})
}

// A row whose first attempt ended in silence may have been delivered, so its place stays spent.
func TestDoubtIsNotRefunded(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		release := make(chan struct{})
		dead := &postbox{}
		dead.tell(hanging(release))
		if a, err := r.replica(dead).Send(r.Context(), askFor(ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.run()
		waited(20 * time.Second)
		r.refuse(askFor(ana))
		close(release)
		r.quit()
	})
}

// The mail is out, and the log is away: nobody sends it again, however long that lasts.
func TestOutcomeOutlivesTheLogsAbsence(t *testing.T) {
	inBubble(t, func(r *rig) {
		gone := make(chan struct{})
		r.post.tell(func(context.Context) error { r.log.set(true); <-gone; return nil })
		a := r.send(askFor(ana))
		close(gone)
		waited(30 * time.Second)
		r.log.set(false)
		waited(30 * time.Second)
		if n := len(r.post.all()); n != 1 {
			t.Errorf("%d mails", n)
		}
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
	})
}

// Another replica must not take over at once when the log comes back: nobody crashed.
func TestNobodyTakesOverRightAfterAnOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		slow := &postbox{}
		slow.tell(hanging(release))
		r.settings.Tick = time.Hour // it renews, but does not look around: the first to look is r
		other := r.replica(slow)
		ctx, stop := context.WithCancel(r.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); other.Run(ctx) }()
		if a, err := other.Send(r.Context(), askFor(ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		waited(20 * time.Second) // the lease is renewed
		if n := len(r.post.all()); n != 0 {
			t.Fatalf("a living replica's send was taken over")
		}
		r.log.set(true)
		waited(20 * time.Second)
		r.log.set(false)
		waited(3 * time.Second)
		close(release)
		waited(20 * time.Second)
		if n := len(r.post.all()) + len(slow.all()); n != 1 {
			t.Errorf("%d mails", n)
		}
		stop()
		<-ended
	})
}

// Once the lease after an outage has passed, takeovers go on as ever.
func TestTakeoverGoesOnAfterAnOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.log.set(true)
		waited(5 * time.Second)
		r.log.set(false)
		waited(2 * time.Second)
		dead, release := &postbox{}, make(chan struct{})
		dead.tell(hanging(release))
		if a, err := r.replica(dead).Send(r.Context(), askFor(ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		waited(2*DefaultLease + 2*DefaultTick)
		if n := len(r.post.all()); n != 1 {
			t.Errorf("%d mails", n)
		}
		close(release)
	})
}
