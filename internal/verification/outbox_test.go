package verification

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/quota"
)

func TestWhatAFailureMeans(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   func(context.Context) error
		status   store.Status
		reason   string
		code     string
		refunded bool
	}{
		{"mailbox unknown", failing(delivery.Rejected, "rcpt", 550, "5.1.1"), store.Failed, "rejected", "550 5.1.1", true},
		{"policy", failing(delivery.Rejected, "dot", 554, "5.7.1"), store.Failed, "rejected", "554 5.7.1", true},
		{"no answer after the dot", failing(delivery.Unknown, "dot", 0, ""), store.Unknown, "no_answer", "", false},
		{"a failure of no class", func(context.Context) error { return context.DeadlineExceeded }, store.Unknown, "no_answer", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.post.tell(c.answer)
				a := r.send(askFor(ana))
				send := r.get(a.View.ID).Send
				if send.Status != c.status || send.Reason != c.reason || send.ProviderCode != c.code {
					t.Errorf("%+v", send)
				}
				waited(30 * time.Second)
				if n := len(r.post.all()); n != 1 {
					t.Errorf("%d attempts", n)
				}
				if c.refunded {
					r.send(askFor(ana)) // in both gates, or it would be refused
					return
				}
				r.refuse(askFor(ana))
			})
		})
	}
}

func TestRefundIsRepeated(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.limiter.set(flaky{quota.NewMemory(time.Now, "process"), new(int)})
		r.send(askFor(ana))
		r.refuse(askFor(ana)) // the limiter did not hear of it
		waited(DefaultLease + 2*DefaultTick)
		r.send(askFor(ana))
	})
}

// flaky loses the first refund.
type flaky struct {
	Limiter
	calls *int
}

func (f flaky) Refund(ctx context.Context, id string, buckets ...string) error {
	if *f.calls++; *f.calls == 1 {
		return context.DeadlineExceeded
	}
	return f.Limiter.Refund(ctx, id, buckets...)
}

func TestTemporaryFailureIsRetried(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.post.tell(failing(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.send(askFor(ana))
		if s := r.get(a.View.ID).Send; s.Status != store.Queued || s.ProviderCode != "451 4.7.1" || s.Reason != "temporary_rcpt" {
			t.Fatalf("after a temporary failure: %+v", s)
		}
		waited(10 * time.Second)
		mails := r.post.all()
		if len(mails) != 2 || mails[0].ID != mails[1].ID || codeIn(mails[0]) != codeIn(mails[1]) {
			t.Fatalf("a retry carries the same code and Message-ID: %d mails", len(mails))
		}
		if s := r.get(a.View.ID).Send; s.Status != store.Sent || s.Number != 1 || s.Attempt != 2 {
			t.Errorf("after the retry: %+v", s)
		}
		r.refuse(askFor(ana))
	})
}

func TestRetriesEndBeforeTheCodeDoes(t *testing.T) {
	inBubble(t, func(r *rig) {
		for range 1000 {
			r.post.tell(failing(delivery.Temporary, "dial", 0, ""))
		}
		a := r.send(askFor(ana))
		waited(11 * minute)
		send := r.get(a.View.ID).Send
		if send.Status != store.Failed || send.Reason != "expired" {
			t.Errorf("%+v", send)
		}
		if n := len(r.post.all()); n < 10 || n > 60 {
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}

func TestServerThatComesBackGetsTheLiveOnes(t *testing.T) {
	inBubble(t, func(r *rig) {
		for range 9 {
			r.post.tell(failing(delivery.Temporary, "dial", 0, ""))
		}
		a := r.send(askFor(ana))
		waited(5 * minute)
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
	})
}

// Nobody was there for the next try; what the server said at the last one stays with the send, for those who are asked why.
func TestExpiredKeepsTheServersLastWord(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		dead := &postbox{}
		dead.tell(failing(delivery.Temporary, "rcpt", 452, "4.2.2"))
		a, err := r.replica(dead).Send(r.Context(), askFor(ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		waited(10 * minute)
		r.run()
		waited(time.Second)
		if s := r.get(a.View.ID).Send; s.Reason != "expired" || s.ProviderCode != "452 4.2.2" {
			t.Errorf("%+v", s)
		}
		r.quit()
	})
}

func TestExpiredInTheQueueIsNotSent(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		dead := &postbox{}
		release := make(chan struct{})
		dead.tell(hanging(release))
		a, err := r.replica(dead).Send(r.Context(), askFor(ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		waited(10 * minute)
		r.run()
		waited(time.Second)
		if s := r.get(a.View.ID).Send; s.Status != store.Failed || s.Reason != "expired" {
			t.Errorf("%+v", s)
		}
		if n := len(r.post.all()); n != 0 {
			t.Errorf("%d dead codes sent", n)
		}
		close(release)
		r.quit()
	})
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		release := make(chan struct{})
		r.post.tell(hanging(release))
		a := r.send(askFor(ana))
		r.refuse(askFor(ana))
		r.stop()
		waited(5 * time.Second)
		close(release)
		<-r.stopped
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		rows, err := r.log.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("refusals were lost at the stop: %d, %v", len(rows), err)
		}
	})
}

func TestStopHandsBackWhatHangs(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		r.post.tell(func(ctx context.Context) error {
			<-ctx.Done()
			return &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Err: ctx.Err()}
		})
		a := r.send(askFor(ana))
		began := time.Now()
		r.quit()
		if took := time.Since(began); took > stopWait+time.Second {
			t.Errorf("the stop took %v", took)
		}
		if s := r.get(a.View.ID).Send; s.Status != store.Queued {
			t.Errorf("%+v", s)
		}
	})
}

func TestRebuildAfterARestart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		waited(10 * time.Second)
		fresh := newRig(r.T, nil)
		fresh.svc.Log = r.log
		if err := fresh.svc.Rebuild(r.Context(), "process"); err != nil {
			t.Fatal(err)
		}
		a, err := fresh.svc.Quota(r.Context(), backEnd, "email", ana, "")
		if err != nil || a.Quota.RetryAfter() != 50*time.Second || a.Quota.Rules[2].Used != 1 {
			t.Errorf("%+v, %v", a.Quota, err)
		}
	})
}

func TestBackoff(t *testing.T) {
	for n := range 100 {
		low, high := time.Hour, time.Duration(0)
		for range 200 {
			d := backoff(n)
			low, high = min(low, d), max(high, d)
		}
		if low < 1500*time.Millisecond || high > 37500*time.Millisecond || (n <= 1 && high > 2500*time.Millisecond) {
			t.Errorf("after attempt %d: %v to %v", n, low, high)
		}
	}
}

func TestMinutes(t *testing.T) {
	for left, want := range map[time.Duration]int{
		10 * minute: 10, 10*minute - 300*time.Millisecond: 10, 10*minute - 3*time.Second: 9, minute: 1, 10 * time.Second: 1, -time.Second: 1,
	} {
		if got := minutes(left); got != want {
			t.Errorf("minutes(%v) = %d, want %d", left, got, want)
		}
	}
}

// What can't be composed ends at once, with its reason, and costs nothing.
func TestWhatCannotBeComposedFails(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*rig)
	}{
		{"unreadable", func(r *rig) { r.svc.Ring = ringOf(r.T, "k2:"+newKey) }},
		{"template", func(r *rig) {
			r.svc.Change(Terms{Purposes: r.settings.Purposes, Titles: map[string]string{"shop": "https://shop.example"}})
		}},
	} {
		parts.Bubble(t, func(t *testing.T) {
			r := newRig(t, nil)
			dead, release := &postbox{}, make(chan struct{})
			dead.tell(hanging(release))
			a, err := r.replica(dead).Send(r.Context(), askFor(ana))
			if err != nil || !a.Admitted {
				t.Fatal(err)
			}
			c.change(r)
			waited(DefaultLease)
			r.run()
			waited(2 * time.Second)
			if s := r.get(a.View.ID).Send; s.Status != store.Failed || s.Reason != c.reason {
				t.Errorf("%s: %+v", c.reason, s)
			}
			if n := len(r.post.all()); n != 0 {
				t.Errorf("%s: %d mails", c.reason, n)
			}
			close(release)
			r.quit()
			r.noLeak()
		})
	}
}
