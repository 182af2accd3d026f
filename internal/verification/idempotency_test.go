package verification

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

func keyed(to, key string) Ask {
	a := askFor(to)
	a.Key = key
	return a
}

// replayed asks what was asked before, and fails the test unless the answer is the first one's.
func (r *rig) replayed(ask Ask, first Answer) Answer {
	r.Helper()
	a := r.send(ask)
	if !a.Replayed || a.View.ID != first.View.ID || a.View.Send.ID != first.View.Send.ID {
		r.Fatalf("not a replay: %+v", a.View)
	}
	return a
}

func (r *rig) mails(want int) {
	r.Helper()
	if got := len(r.post.all()); got != want {
		r.Errorf("%d mails, want %d", got, want)
	}
}

func TestSameKeyIsOneSend(t *testing.T) {
	inBubbleWith(t, seldom(nil), func(r *rig) {
		first := r.send(keyed(ana, "k"))
		waited(30 * time.Second)
		again := r.replayed(keyed(ana, "k"), first)
		if got := again.Quota.RetryAfter(); got != 30*time.Second {
			t.Errorf("the countdown starts again: %v", got)
		}
		if c := r.check(first.View.ID, codeIn(r.post.all()[0])); !c.Valid {
			t.Fatal("the code was not right")
		}
		again = r.replayed(keyed(ana, "k"), first)
		if again.View.Send != first.View.Send || again.View.State != Pending || again.View.ExpiresAt != first.View.ExpiresAt {
			t.Errorf("first %+v, then %+v", first.View, again.View)
		}
		waited(KeyLife - 30*time.Second - time.Microsecond)
		r.replayed(keyed(ana, "k"), first)
		waited(time.Microsecond)
		if a := r.send(keyed(ana, "k")); a.Replayed || a.View.ID == first.View.ID {
			t.Error("remembered for longer than a day")
		}
		r.mails(2)
	})
}

func TestSameKeyAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		other := r.replica(r.post)
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for i := range 100 {
			all.Go(func() {
				svc := r.svc
				if i%2 == 0 {
					svc = other
				}
				a, err := svc.Send(r.Context(), keyed(ana, "k"))
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, ErrBusy) {
					seen["busy"]++
				} else if err != nil || !a.Admitted {
					t.Errorf("%v %+v", err, a)
				} else {
					seen[a.View.Send.ID]++
				}
			})
		}
		all.Wait()
		synctest.Wait()
		delete(seen, "busy")
		if len(seen) != 1 {
			t.Errorf("%d sends", len(seen))
		}
		r.mails(1)
	})
}

func TestKeyOfAnotherRequest(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.send(keyed(ana, "k"))
		for what, change := range map[string]func(*Ask){
			"recipient": func(a *Ask) { a.To = "bob@example.com" },
			"purpose":   func(a *Ask) { a.Purpose = "login" },
			"locale":    func(a *Ask) { a.Locale = "zh-CN" },
			"reference": func(a *Ask) { a.Reference = "order 7" },
			"session":   func(a *Ask) { a.Session = "s" },
			"resend":    func(a *Ask) { a.Resend = first.View.ID },
		} {
			a := keyed(ana, "k")
			change(&a)
			if _, err := r.svc.Send(r.Context(), a); !errors.Is(err, ErrOtherRequest) {
				t.Errorf("another %s: %v", what, err)
			}
		}
		for what, change := range map[string]func(*Ask){
			"the recipient by its ID alone, as a browser": func(a *Ask) { a.Caller = browser },
			"another app": func(a *Ask) { a.App = "bank" },
		} {
			a := keyed("bob@example.com", "k")
			change(&a)
			if got, err := r.svc.Send(r.Context(), a); err != nil || !got.Admitted || got.Replayed {
				t.Errorf("%s: %v %+v", what, err, got)
			}
			waited(minute)
		}
	})
}

func TestRefusalGivesTheKeyUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		r.refuse(keyed(ana, "k"))
		r.refuse(keyed(ana, "k"))
		waited(minute)
		first := r.send(keyed(ana, "k"))
		r.replayed(keyed(ana, "k"), first)
		r.mails(2)
	})
}

// fail makes the next call of a method of the log go wrong.
func (r *rig) fail(method string, how sqlite.Fault) {
	r.log.SetFault(func(m string) sqlite.Fault {
		if m == method {
			return how
		}
		return sqlite.None
	})
}

func TestOutagesAndKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		how    sqlite.Fault
		lands  bool // what the answer was lost of
	}{
		{"no claim", "Claim", sqlite.Down, false},
		{"nothing written", "Begin", sqlite.Down, false},
		{"written, and the answer lost", "Begin", sqlite.Lost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.fail(c.method, c.how)
				if _, err := r.svc.Send(r.Context(), keyed(ana, "k")); !errors.Is(err, ErrUnavailable) {
					t.Fatalf("%v", err)
				}
				r.fail("", sqlite.None)
				synctest.Wait()              // the place is given back beside the answer
				a := r.send(keyed(ana, "k")) // at once: neither refused nor sent twice
				if a.Replayed != c.lands {
					t.Errorf("%+v", a)
				}
				waited(10 * time.Second)
				r.mails(1)
				r.replayed(keyed(ana, "k"), a)
			})
		})
	}
}

// A commit that was not certain and did not happen: the same key goes on with the place that was taken.
func TestUncertainAndNotWritten(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.log.uncertain.Store(true)
		r.log.set(true)
		if _, err := r.svc.Send(r.Context(), keyed(ana, "k")); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%v", err)
		}
		r.log.set(false)
		r.refuse(askFor(ana)) // its place is spent
		if a := r.send(keyed(ana, "k")); a.Replayed {
			t.Error("nothing to replay")
		}
		r.mails(1)
	})
}

// A process that dies anywhere on the way leaves a key that is free again after its lease, and one send at most.
func TestCrashesWithAKey(t *testing.T) {
	for dies, crash := range map[string]func(*rig, asked, claim){
		"after the claim": func(*rig, asked, claim) {},
		"after the limiter": func(r *rig, a asked, c claim) {
			if _, err := r.svc.take(r.Context(), a, c); err != nil {
				r.Fatal(err)
			}
		},
		"after the log": func(r *rig, a asked, c claim) {
			d, err := r.svc.take(r.Context(), a, c)
			if err != nil {
				r.Fatal(err)
			}
			if _, err := r.svc.begin(r.Context(), a, c, d); err != nil {
				r.Fatal(err)
			}
		},
		"after giving the place back": func(r *rig, a asked, c claim) {
			if _, err := r.svc.take(r.Context(), a, c); err != nil {
				r.Fatal(err)
			}
			r.svc.outbox.giveBack(string(c.send[:]), a.buckets())
		},
	} {
		t.Run(dies, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a, err := r.svc.understand(r.Context(), keyed(ana, "k"))
				if err != nil {
					t.Fatal(err)
				}
				c, err := r.svc.claim(r.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				crash(r, a, c)
				if dies != "after the log" {
					if _, err := r.svc.Send(r.Context(), keyed(ana, "k")); !errors.Is(err, ErrBusy) {
						t.Errorf("within the lease: %v", err)
					}
				}
				waited(claimLease)
				_, err = r.svc.Send(r.Context(), keyed(ana, "k"))
				if errors.Is(err, ErrUnavailable) && dies == "after giving the place back" {
					_, err = r.svc.Send(r.Context(), keyed(ana, "k"))
				}
				if err != nil {
					t.Fatal(err)
				}
				waited(10 * time.Second)
				r.mails(1)
				all, err := r.log.Sends(r.Context(), store.Filter{Limit: 10})
				if err != nil || len(all) != 1 || all[0].Status != store.Sent {
					t.Errorf("%+v, %v", all, err)
				}
			})
		})
	}
}

// Two processes go on with one claim, because the first slept for longer than its lease: one send.
func TestSleeperWithAKey(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, err := r.svc.understand(r.Context(), keyed(ana, "k"))
		if err != nil {
			t.Fatal(err)
		}
		asleep, err := r.svc.claim(r.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		waited(claimLease)
		inherited, err := r.svc.claim(r.Context(), a)
		if err != nil || !inherited.inherited || inherited.send != asleep.send {
			t.Fatalf("%+v, %v", inherited, err)
		}
		if a.turn, err = r.svc.lines.enter(r.Context(), "a line"); err != nil {
			t.Fatal(err)
		}
		first, err := r.svc.decide(r.Context(), a, asleep)
		if err != nil || !first.Admitted {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := r.svc.decide(r.Context(), a, inherited)
		if err != nil || !second.Replayed || second.View.ID != first.View.ID {
			t.Errorf("%+v, %v", second, err)
		}
		waited(10 * time.Second)
		r.mails(1)
	})
}

// Who waits for the outcome is told it, also by a replay.
func TestReplayTellsTheOutcomeToWhoWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		ask := keyed(ana, "k")
		ask.Wait = 5 * time.Second
		if a, err := r.svc.Send(r.Context(), ask); err != nil || a.View.Send.Status != store.Failed {
			t.Fatalf("%+v, %v", a, err)
		}
		a, err := r.svc.Send(r.Context(), ask)
		if err != nil || !a.Replayed || a.View.Send.Status != store.Failed || a.View.Send.Reason != reasonRejected {
			t.Errorf("%+v, %v", a, err)
		}
		r.mails(1)
	})
}

// A limiter that remembers refusals is told that the ID may have been admitted before, also by another process.
func TestTheLimiterIsToldThatAnIDMayComeTwice(t *testing.T) {
	inBubble(t, func(r *rig) {
		heard := &hearing{Limiter: r.svc.limits.Limiter}
		r.svc.limits.Limiter = heard
		for _, ask := range []Ask{keyed(ana, "k"), keyed(ana, "")} {
			if _, err := r.svc.Send(r.Context(), ask); err != nil {
				t.Fatal(err)
			}
			if heard.last.Repeated != (ask.Key != "") {
				t.Errorf("key %q: repeated %v", ask.Key, heard.last.Repeated)
			}
		}
	})
}

type hearing struct {
	Limiter
	last quota.Request
}

func (h *hearing) Take(ctx context.Context, req quota.Request) (quota.Decision, error) {
	h.last = req
	return h.Limiter.Take(ctx, req)
}
