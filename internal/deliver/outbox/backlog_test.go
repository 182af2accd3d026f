package outbox

import (
	"log/slog"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// ends is a function that ends n attempts, one after the other.
type ends func(n int, every time.Duration, fail *delivery.Error)

// wait queues n more messages of an app in a lane.
func wait(l *lane, app string, n int) {
	l.noteFull(time.Now(), 16)
	l.count(app, n)
	l.queued += n
}

// postponed makes n messages of an app wait for their next attempt, as if the server accepted no
// more messages.
func postponed(l *lane, app string, n int) {
	l.noteFull(time.Now(), 16)
	l.refused = time.Now()
	l.count(app, n)
}

// backlog sends n messages while all workers are busy. Two seconds later all are busy again.
func (end ends) backlog(l *lane, n int, every time.Duration) {
	l.noteFull(time.Now(), 16)
	l.workers = 16
	end(n, every, nil)
	l.workers = 15
	time.Sleep(2 * time.Second)
	l.noteFull(time.Now(), 16)
	l.workers = 16
}

// The expected wait of a new message is computed from the messages before it in its lane and the
// throughput of the last attempts; see ExpectedWait.
func TestExpectedWait(t *testing.T) {
	mails := store.Queue{Channel: recipient.Email}
	refused := func(stage string, status int) *delivery.Error {
		return delivery.ErrorByReply(stage, status, "", delivery.NoMeaning)
	}
	paced := &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, About: delivery.AboutPace, Err: delivery.ErrPace}
	for name, c := range map[string]struct {
		run     func(l *lane, end ends)
		want    time.Duration
		stalled bool
	}{
		"nothing waits": {func(_ *lane, end ends) { end(1000, time.Second/100, nil) }, 0, false},
		"not for a second": {func(l *lane, end ends) {
			wait(l, "shop", 1000)
			end(9, time.Second/10, nil)
		}, 0, false},
		"2 a second, while other codes live longer": {func(l *lane, end ends) {
			wait(l, "shop", 50)
			for n := range 100 {
				v := store.Verification{ExpiresAt: time.Now().Add(time.Duration(1+n%2*59) * time.Minute)}
				l.push(&flight{work: store.Work{Send: store.Send{App: "shop"}, Verification: v}})
			}
			end(40, time.Second/2, nil)
		}, 50 * time.Second, false},
		"what went out before does not count": {func(l *lane, end ends) {
			end(15, time.Millisecond, nil)
			wait(l, "shop", 100)
			end(4, time.Second/2, nil)
		}, 50 * time.Second, false},
		"it is quicker now": {func(l *lane, end ends) {
			wait(l, "shop", 100)
			end(40, time.Second, nil)
			end(40, time.Second/10, nil)
		}, 55 * time.Second, false},
		"it hangs now": {func(l *lane, end ends) {
			wait(l, "shop", 100)
			end(40, time.Second/10, nil)
			time.Sleep(18 * time.Second)
		}, 55 * time.Second, false},
		"no attempt has ended": {func(l *lane, _ ends) {
			l.workers = 5
			wait(l, "shop", 95)
			time.Sleep(2 * time.Second)
		}, 40 * time.Second, false},
		"another app's backlog": {func(l *lane, end ends) {
			wait(l, "club", 1000)
			wait(l, "shop", 9)
			end(40, time.Second/2, nil)
		}, 19 * time.Second / 2, false},
		"a domain defers mails": {func(l *lane, end ends) {
			wait(l, "shop", 100)
			end(1000, time.Millisecond, refused(delivery.StageRcpt, 451))
		}, time.Second / 10, false},
		"the server takes no more": {func(l *lane, end ends) {
			postponed(l, "shop", 2)
			end(98, time.Millisecond, providerhttp.ErrorByStatus(providerhttp.Response{Status: 429}, ""))
			end(40, time.Second/2, nil)
		}, 50 * time.Second, false},
		"30 a minute": {func(l *lane, end ends) {
			end(30, time.Second/30, nil)
			end(100, 0, paced)
			time.Sleep(2 * time.Second)
		}, 200 * time.Second, false},
		"suspended": {func(l *lane, end ends) {
			postponed(l, "shop", 2)
			end(40, time.Second, nil)
			l.noteFull(time.Now(), 16)
			l.suspended = time.Now()
			postponed(l, "shop", 100)
			time.Sleep(30 * time.Second)
		}, 30 * time.Second, true},
		"suspended, nothing waits": {func(l *lane, end ends) {
			wait(l, "shop", 1)
			wait(l, "shop", -1)
			l.noteFull(time.Now(), 16)
			l.suspended = time.Now()
			time.Sleep(time.Hour)
		}, 0, false},
		"suspended, and then one waits": {func(l *lane, end ends) {
			l.noteFull(time.Now(), 16)
			l.suspended = time.Now()
			time.Sleep(time.Hour)
			postponed(l, "shop", 1)
		}, time.Hour, true},
		"again and again suspended": {func(l *lane, end ends) {
			wait(l, "shop", 100)
			for range 10 {
				end(4, time.Second, nil)
				l.noteFull(time.Now(), 16)
				l.suspended = time.Now()
				wait(l, "shop", 0)
			}
		}, 100 * time.Second, false},
		"the rest waits in the database": {func(l *lane, end ends) {
			wait(l, "shop", 20)
			l.behind["shop"], l.inStore, l.flightsByApp["shop"] = true, 80, 1000
			end(40, time.Second/2, nil)
		}, 50 * time.Second, false},
		"another app's rest waits there": {func(l *lane, end ends) {
			wait(l, "shop", 20)
			l.behind["shop"], l.inStore, l.flightsByApp["shop"] = true, 80, 20
			end(40, time.Second/2, nil)
		}, 10 * time.Second, false},
		"all workers are busy, and none waits": {func(l *lane, end ends) {
			l.noteFull(time.Now(), 16)
			l.workers = 16
			end(90, time.Second, nil)
		}, 16 * time.Second, false},

		"a worker has just become free": {func(l *lane, end ends) {
			l.noteFull(time.Now(), 16)
			l.workers = 16
			end(40, time.Second, nil)
			l.workers = 15
		}, 15 * time.Second, false},
		"a worker is free": {func(l *lane, end ends) {
			l.workers = 16
			end(40, time.Second, nil)
			l.workers = 15
			time.Sleep(judgedAfter)
		}, 0, false},

		"one attempt was slow, another hangs, and more would begin at once": {func(l *lane, end ends) {
			l.workers = 2
			end(1, 2*time.Second, nil)
			l.workers = 1
			time.Sleep(time.Minute)
		}, 0, false},
		"no answer, and another is up": {func(l *lane, end ends) {
			end(40, time.Second, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial})
		}, 0, false},
		"few were refused, and all workers have just begun": {func(l *lane, _ ends) {
			postponed(l, "shop", 5)
			time.Sleep(25 * time.Second)
			l.noteFull(time.Now(), 16)
			l.workers = 16
			time.Sleep(time.Second / 10)
		}, 0, false},

		"few were refused, all workers are busy, and one waits": {func(l *lane, end ends) {
			postponed(l, "shop", 5)
			time.Sleep(25 * time.Second)
			wait(l, "shop", 1)
			l.workers = 16
			end(1, 2*time.Second, nil)
		}, 11 * time.Second / 4, false},

		"suspended, and one tries": {func(l *lane, _ ends) {
			postponed(l, "shop", 2)
			l.noteFull(time.Now(), 16)
			l.suspended = time.Now()
			time.Sleep(30 * time.Second)
			l.workers = 1
		}, 30 * time.Second, true},
		"the first of many attempts has ended": {func(l *lane, end ends) {
			wait(l, "shop", 384)
			l.workers = 16
			end(1, 3*time.Second/2, nil)
			end(3, time.Millisecond, nil)
		}, 75 * time.Second / 2, false},
		"each worker takes as long as all of them": {func(l *lane, end ends) {
			wait(l, "shop", 14)
			l.workers = 16
			end(3, 2*time.Second, nil)
		}, 60 * time.Second, false},
		"soon after a backlog": {func(l *lane, end ends) {
			end.backlog(l, 10, 2*time.Second)
			end(1, time.Second/2, nil)
		}, 16 * 41 * time.Second / 22, false},
		"soon after a short backlog": {func(l *lane, end ends) {
			end.backlog(l, 20, 2*time.Second)
			end.backlog(l, 4, time.Second/2)
			time.Sleep(50 * time.Second)
			for range 1000 { // for short times no worker is free
				end.backlog(l, 0, 0)
			}
			time.Sleep(time.Second / 2)
		}, 16 * 16 * 121 * time.Second / 190, false},
		"soon after a quick backlog": {func(l *lane, end ends) {
			end.backlog(l, 20, 2*time.Second)
			end.backlog(l, 20, time.Second/20)
			time.Sleep(time.Second / 2)
		}, 16 * 3 * time.Second / 40, false},
		"as many went out as after a backlog are enough": {func(l *lane, end ends) {
			end.backlog(l, 20, 2*time.Second)
			end(20, time.Second/20, nil)
		}, 16 * time.Second / 20, false},
		"long after a backlog": {func(l *lane, end ends) {
			end.backlog(l, 10, 2*time.Second)
			l.workers = 15
			time.Sleep(shortPause)
			l.noteFull(time.Now(), 16)
			l.workers = 16
			end(1, 2*time.Second, nil)
		}, 2 * time.Second, false},

		"ten were refused, one of them just now": {func(l *lane, end ends) {
			for range 10 {
				postponed(l, "shop", 1)
				end(1, time.Second*9/10, nil)
			}
		}, 9 * time.Second, false},
		"few wait for their turn, and others go out at once": {func(l *lane, end ends) {
			postponed(l, "shop", 19)
			time.Sleep(time.Minute)
			end(2, time.Minute, nil)
			time.Sleep(time.Second)
		}, 0, false},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			o := New(Config{}, Dependencies{Logger: slog.New(slog.DiscardHandler)})
			o.Now = time.Now
			l := o.lanes[mails]
			c.run(l, func(n int, every time.Duration, fail *delivery.Error) {
				for range n {
					time.Sleep(every)
					o.noteAttempt(l, fail)
					if fail != nil {
						o.notePostponed(&flight{lane: l, work: store.Work{Send: store.Send{App: "shop"}}}, fail, time.Hour)
					}
				}
			})
			wait, stalled := o.ExpectedWait(mails, "shop", "", time.Minute)
			servertest.Same(t, name+": stalled", stalled, c.stalled)
			servertest.Same(t, name+": bounded", len(l.sent) < 100, true)
			if off := wait - c.want; off < -c.want/20 || off > c.want/20 {
				t.Errorf("%s: %v, want %v", name, wait, c.want)
			}
			servertest.Same(t, name+": the longest", o.LongestWait(recipient.Email) >= wait, true)
			strangers, _ := o.ExpectedWait(store.Queue{Channel: recipient.Email, Strangers: true}, "shop", "", time.Minute)
			servertest.Same(t, name+": strangers' lane", strangers, 0)
		})
	}
}
