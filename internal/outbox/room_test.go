package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	vtest "sendcode/internal/verification/verificationtest"
)

// A lease that could not be renewed in time ends, and this process takes its own row over. The attempt under way goes on under the new
// number: its outcome is written, and no second mail goes out. The place of a refused one stays spent, for the row is in doubt.
func TestOwnRowIsTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(context.Context) error
		want   store.Status
	}{
		"accepted": {func(context.Context) error { return nil }, store.Sent},
		"rejected": {vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"), store.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				release := make(chan struct{})
				r.MailServer.Answer(func(ctx context.Context) error { <-release; return c.answer(ctx) })
				a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
				r.NoError(err)
				synctest.Wait()
				r.FailStore("Renew", sqlite.Down)
				r.Sleep(10 * time.Second)
				r.FailStore("", sqlite.None)
				if s := r.Get(a.View.ID).Send; s.Attempt != 2 {
					t.Fatalf("not taken over: %+v", s)
				}
				close(release)
				r.Sleep(30 * time.Second)
				if s := r.Get(a.View.ID).Send; s.Status != c.want || s.Attempt != 2 {
					t.Errorf("%s at attempt %d", s.Status, s.Attempt)
				}
				r.WantMails(1)
				d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
				r.NoError(err)
				if used := d.Quota.Rules[1].Used; used != 1 {
					t.Errorf("%d places are taken", used)
				}
			})
		})
	}
}

// Memory has room for as many as it is said to have, and the next one waits in the log.
func TestRoomToTheLast(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r, _ := slowRig(t, time.Minute, 1)
		r.Start()
		ids := r.SendMany(0, memory+1)
		synctest.Wait()
		for n, want := range map[int]string{memory - 1: "", memory: "backlog"} {
			if s := r.Get(ids[n]).Send; s.Reason != want {
				t.Errorf("%d: %q, want %q", n, s.Reason, want)
			}
		}
		r.Quit()
	})
}

// While one waits in the log, a new one waits there as well, also where there is room again: else the old one might never have its turn.
func TestNoneOvertakesWhatWaitsInTheLog(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r, _ := slowRig(t, time.Minute, 1)
		r.Start()
		r.Sleep(500 * time.Millisecond) // between two looks at the log
		r.SendMany(0, memory+1)
		r.Sleep(time.Minute + time.Millisecond) // one was delivered
		synctest.Wait()
		id := r.SendMany(memory+1, 1)[0]
		synctest.Wait()
		if s := r.Get(id).Send; s.Reason != "backlog" {
			t.Errorf("it is %s %q", s.Status, s.Reason)
		}
		r.Quit()
	})
}

// What is due is taken over at once, batch after batch.
func TestTakeoverOfMoreThanABatch(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		const n = 501 // a batch is 500
		r := vtest.NewRig(t, nil)
		release, post := make(chan struct{}), &vtest.MailServer{}
		for range outbox.DefaultWorkers {
			post.Answer(vtest.Hang(release))
		}
		dead := r.Replica(post)
		for i := range n {
			_, err := dead.Send(r.Context(), vtest.AskFor(fmt.Sprintf("person-%d@example.com", i)))
			r.NoError(err)
		}
		time.Sleep(9 * time.Second)
		r.Svc = r.Replica(&vtest.SlowMailServer{Each: time.Minute})
		r.Svc.Queue.Capacity = 600 // more than half of it is full after a batch, so that no worker asks for more
		r.Start()
		synctest.Wait()
		if held, _ := r.Svc.Queue.Held(recipient.Email); held != n {
			t.Errorf("%d are held of %d", held, n)
		}
		close(release)
		r.Quit()
	})
}
