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
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// A process that was killed between the 202 and the mail never comes back; another takes its send over.
func TestCrashIsTakenOver(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		release := make(chan struct{})
		dead := &vtest.MailServer{}
		dead.Answer(vtest.Hang(release))
		crashed := r.Replica(dead) // never runs: it renews nothing
		a, err := crashed.Send(r.Context(), vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Start()
		r.Sleep(10 * time.Second)
		mails := r.MailServer.All()
		if len(mails) != 1 || mails[0].ID != dead.All()[0].ID || vtest.CodeIn(mails[0]) != vtest.CodeIn(dead.All()[0]) {
			t.Fatalf("after ten seconds: %d mails", len(mails))
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent || s.Attempt != 2 {
			t.Errorf("%+v", s)
		}
		close(release) // the sleeper wakes and has nothing to say any more
		r.Sleep(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent || s.Attempt != 2 || s.Provider != "mx.example" {
			t.Errorf("the sleeper changed something: %+v", s)
		}
		r.Quit()
	})
}

// The sleeper's mail was refused while another replica delivered: no refund, no step back.
func TestSleeperChangesNothing(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		release := make(chan struct{})
		asleep := &vtest.MailServer{}
		asleep.Answer(func(ctx context.Context) error {
			<-release
			return vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1")(ctx)
		})
		sleeper := r.Replica(asleep)
		a, err := sleeper.Send(r.Context(), vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Start()
		r.Sleep(20 * time.Second)
		close(release)
		r.Sleep(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		r.RefuseTo(vtest.Ana)
		r.Quit()
	})
}

// A row whose first attempt ended in silence may have been delivered, so its place stays spent.
func TestDoubtIsNotRefunded(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		release := make(chan struct{})
		dead := &vtest.MailServer{}
		dead.Answer(vtest.Hang(release))
		if a, err := r.Replica(dead).Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.Start()
		r.Sleep(20 * time.Second)
		r.RefuseTo(vtest.Ana)
		close(release)
		r.Quit()
	})
}

// The mail is out, and the log is away: no process sends it again, however long that lasts.
func TestOutcomeOutlivesTheLogsAbsence(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		gone := make(chan struct{})
		r.MailServer.Answer(func(context.Context) error { r.Store.Cut(true); <-gone; return nil })
		a := r.SendTo(vtest.Ana)
		close(gone)
		r.Sleep(30 * time.Second)
		r.Store.Cut(false)
		r.Sleep(30 * time.Second)
		if n := len(r.MailServer.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
	})
}

// Another replica must not take over at once when the log comes back: no process crashed.
func TestNoTakeoverRightAfterAnOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		release := make(chan struct{})
		slow := &vtest.MailServer{}
		slow.Answer(vtest.Hang(release))
		r.Settings.Tick = time.Hour // it renews, but does not look around: the first to look is r
		other := r.Replica(slow)
		ctx, stop := context.WithCancel(r.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); other.Run(ctx) }()
		if a, err := other.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Sleep(20 * time.Second) // the lease is renewed
		if n := len(r.MailServer.All()); n != 0 {
			t.Fatalf("a living replica's send was taken over")
		}
		r.Store.Cut(true)
		r.Sleep(20 * time.Second)
		r.Store.Cut(false)
		r.Sleep(3 * time.Second)
		close(release)
		r.Sleep(20 * time.Second)
		if n := len(r.MailServer.All()) + len(slow.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
		stop()
		<-ended
	})
}

// Once the lease after an outage has passed, takeovers go on as ever.
func TestTakeoverGoesOnAfterAnOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Store.Cut(true)
		r.Sleep(5 * time.Second)
		r.Store.Cut(false)
		r.Sleep(2 * time.Second)
		dead, release := &vtest.MailServer{}, make(chan struct{})
		dead.Answer(vtest.Hang(release))
		if a, err := r.Replica(dead).Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Sleep(2*outbox.DefaultLease + 2*outbox.DefaultTick)
		if n := len(r.MailServer.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
		close(release)
	})
}

// A send that the log let in alone, and whose process did not hear of it, is told to the limiter by the process that takes it over.
func TestTakeoverTellsTheLimiterOfASendThatTheLogLetIn(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		m := quota.NewMemory(time.Now, "process")
		r.Limiter.Set(m)
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.QuotaAt(r.Svc) // from now on the limiter is asked alone
		r.Limiter.Set(vtest.DownLimiter{Memory: m})
		r.FailStore("Begin", sqlite.Lost)
		if _, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana)); !errors.Is(err, verification.ErrUncertain) {
			t.Fatalf("%v", err)
		}
		r.Store.SetFault(nil)
		r.Limiter.Set(m)
		r.Sleep(15 * time.Second)
		r.WantMails(2)
		r.WantQuota("afterwards", r.QuotaAt(r.Svc), "[0 3 8]", 45*time.Second)
	})
}
