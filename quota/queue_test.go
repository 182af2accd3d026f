package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/kit/servertest"
)

// waiters are callers of a queue before a limiter in a bubble. All arrive at once, in the order of
// their numbers.
type waiters struct {
	*testing.T
	*Queue
	*Memory
	rules    []Rule
	began    time.Time
	mu       sync.Mutex
	calls    int // of the limiter
	admitted []int
	at       []time.Duration // of each admission, since the start
	refused  map[time.Duration]int
	all      sync.WaitGroup
}

func queued(t *testing.T, limit int, window time.Duration, test func(w *waiters)) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		test(&waiters{
			T: t, Queue: NewQueue(), Memory: NewMemory(time.Now), began: time.Now(), refused: map[time.Duration]int{},
			rules: []Rule{{Name: "only", Scope: "key:user", Limit: limit, Window: window}},
		})
	})
}

// taken returns how many places are taken.
func (w *waiters) taken() int {
	w.Queue.mu.Lock()
	defer w.Queue.mu.Unlock()
	return w.waiting
}

// count reads a number that callers change.
func (w *waiters) count(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *n
}

func (w *waiters) request(id, bucket string) Request {
	return Request{ID: id, Rules: w.rules, Buckets: map[Scope]string{"key:user": bucket}}
}

func (w *waiters) ask(ctx context.Context, r Request) (Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	d, err := w.Memory.Take(ctx, r)
	if i, bad := strconv.Atoi(r.ID); bad == nil && d.Admitted && !r.Repeated {
		w.admitted, w.at = append(w.admitted, i), append(w.at, time.Since(w.began))
	}
	return d, err
}

// come makes n callers wait, each for at most so long.
func (w *waiters) come(ctx context.Context, first, n int, most time.Duration) {
	for i := first; i < first+n; i++ {
		w.all.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, most)
			defer cancel()
			began := time.Now()
			d, err := w.Wait(bounded, w.request(strconv.Itoa(i), "a"), w.ask)
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case err != nil:
				w.Errorf("caller %d: %v", i, err)
			case !d.Admitted:
				if d.RetryAfter() <= 0 {
					w.Errorf("caller %d is refused without a wait", i)
				}
				w.refused[time.Since(began)]++
			}
		})
		synctest.Wait()
	}
}

// holds checks the order of the admissions, and that no window has more than the limit.
func (w *waiters) holds() {
	w.Helper()
	if !slices.IsSorted(w.admitted) {
		w.Errorf("not in the order of arrival: %v", w.admitted)
	}
	for i := w.rules[0].Limit; i < len(w.at); i++ {
		if w.at[i]-w.at[i-w.rules[0].Limit] < w.rules[0].Window {
			w.Errorf("admission %d at %v is over the limit", i, w.at[i])
		}
	}
}

func TestQueueOfFiveHundred(t *testing.T) {
	for _, c := range []struct {
		limit                int
		window               time.Duration
		least, most, refused int // of those that are admitted in 30 s, and of those refused at once
	}{{100, time.Minute, 100, 100, 400}, {10, time.Second, 300, 310, 190}} {
		queued(t, c.limit, c.window, func(w *waiters) {
			w.come(w.Context(), 0, 500, 30*time.Second)
			w.all.Wait()
			w.holds()
			if n := len(w.admitted); n < c.least || n > c.most || w.refused[0] != c.refused || c.limit == 10 && w.calls > 310+31 {
				w.Errorf("%d a %v: %d admitted, refused after %v, %d calls", c.limit, c.window, n, w.refused, w.calls)
			}
		})
	}
}

// A caller that leaves frees its turn: those behind move up. One that asks without waiting is
// refused while others wait for the place, and a repeated ID is answered at once.
func TestQueueFreesTheTurnOfACallerThatLeaves(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.come(w.Context(), 0, 1, 0)
		ctx, leave := context.WithCancel(w.Context())
		left := make(chan error, 2)
		for i := range 2 { // the first of the line, and the one behind
			go func() {
				_, err := w.Wait(ctx, w.request(fmt.Sprint("leaves", i), "a"), w.ask)
				left <- err
			}()
			synctest.Wait()
		}
		w.come(w.Context(), 1, 1, 15*time.Second) // cannot be reached behind two
		same(w.T, "refused at once", w.refused[0], 1)
		d, err := w.Queue.Take(w.Context(), w.request("plain", "a"), w.ask)
		same(w.T, "a plain take", fmt.Sprint(d.Admitted, d.RetryAfter(), err), "false 30s <nil>")
		d, err = w.Queue.Take(w.Context(), w.request("plain", "other"), w.ask)
		same(w.T, "another line", fmt.Sprint(d.Admitted, err), "true <nil>")
		again := w.request("0", "a")
		again.Repeated = true
		d, err = w.Queue.Take(w.Context(), again, w.ask)
		same(w.T, "a repeated ID", fmt.Sprint(d.Admitted, err), "true <nil>")
		time.Sleep(time.Second)
		leave()
		for range 2 {
			if err := <-left; !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		w.come(w.Context(), 2, 1, 15*time.Second)
		w.all.Wait()
		same(w.T, "admitted", fmt.Sprint(w.admitted, w.at), "[0 2] [0s 10s]")
		same(w.T, "kept", len(w.lines)+len(w.places)+w.waiting, 0)
	})
}

// An answer that shows that those behind cannot be admitted in time refuses them at once.
func TestQueueRefusesAsSoonAsItIsClear(t *testing.T) {
	queued(t, 2, 20*time.Second, func(w *waiters) {
		w.come(w.Context(), 0, 1, 0)
		time.Sleep(15 * time.Second)
		w.come(w.Context(), 1, 1, 0)
		w.come(w.Context(), 2, 2, 10*time.Second)
		w.all.Wait()
		same(w.T, "admitted", fmt.Sprint(w.admitted, w.at, w.refused), "[0 1 2] [0s 15s 20s] map[5s:1]")
	})
}

// An answer that admits the first leaves its places to those right behind it, whose time ends
// before a second window does.
func TestQueueAdmitsAsManyAsThereArePlaces(t *testing.T) {
	queued(t, 3, 20*time.Second, func(w *waiters) {
		w.come(w.Context(), 0, 3, 0)
		w.come(w.Context(), 3, 4, 25*time.Second)
		w.all.Wait()
		same(w.T, "admitted", fmt.Sprint(w.admitted, w.refused), "[0 1 2 3 4 5] map[0s:1]")
	})
}

// At most MaxWaiting wait; at the end all return at once, and none waits any more.
func TestQueueIsBoundedAndEnds(t *testing.T) {
	queued(t, MaxWaiting, 20*time.Second, func(w *waiters) {
		for i := range MaxWaiting {
			_, _ = w.Memory.Take(w.Context(), w.request(fmt.Sprint("before", i), "a"))
		}
		w.come(w.Context(), 0, MaxWaiting, time.Minute)
		same(w.T, "waiting", w.taken(), MaxWaiting)
		w.come(w.Context(), MaxWaiting, 10, time.Minute)
		same(w.T, "refused at once", w.refused[0], 10)
		time.Sleep(time.Second)
		w.End()
		w.all.Wait()
		same(w.T, "refused at the end", w.refused[time.Second], MaxWaiting)
		w.come(w.Context(), 0, 1, time.Minute)
		w.all.Wait()
		same(w.T, "refused after the end", w.refused[0], 11)
		same(w.T, "kept", len(w.lines)+len(w.places)+w.waiting, 0)
	})
}

// When all places are taken, a caller of a tenant with fewer takes that of the newest caller of the
// tenant with most, until they have the same. It does not matter whether all wait in one line or
// each in its own; and a caller whose place is taken hears its wait.
func TestQueueSharesItsPlacesAmongTenants(t *testing.T) {
	for lines, bucket := range map[string]func(i int) string{
		"one line":    func(int) string { return "full" },
		"a line each": func(i int) string { return fmt.Sprint("full", i) },
	} {
		queued(t, 1, 20*time.Second, func(w *waiters) {
			lost, heard := map[string][]int{}, map[string]int{}
			come := func(tenant string, first, n int) {
				for i := first; i < first+n; i++ {
					w.all.Go(func() {
						r := w.request(fmt.Sprint(tenant, i), tenant+bucket(i))
						r.Tenant = tenant
						ctx, cancel := context.WithTimeout(w.Context(), 10*time.Hour)
						defer cancel()
						d, err := w.Wait(ctx, r, w.ask)
						w.mu.Lock()
						defer w.mu.Unlock()
						heard[tenant]++
						if !d.Admitted {
							lost[tenant] = append(lost[tenant], i)
						}
						if err != nil || !d.Admitted && d.RetryAfter() <= 0 {
							w.Errorf("%s: %s %d: %+v %v", lines, tenant, i, d, err)
						}
					})
					synctest.Wait()
				}
			}
			fill := func(tenant string, buckets int) {
				for i := range buckets {
					_, _ = w.Memory.Take(w.Context(), w.request(fmt.Sprint("before", i), tenant+bucket(i)))
				}
			}
			fill("busy", MaxWaiting+7)
			come("busy", 0, MaxWaiting)
			come("busy", MaxWaiting, 5)
			same(w.T, "refused of the only tenant", fmt.Sprint(lost["busy"]), "[1000 1001 1002 1003 1004]")
			lost["busy"] = nil
			fill("other", 701)
			come("other", 0, 3)
			same(w.T, "that lost their places", fmt.Sprint(lost), "map[busy:[999 998 997]]")
			come("other", 3, 697)
			same(w.T, "that lost their places", fmt.Sprint(len(lost["busy"]), len(lost["other"])), "500 200")
			come("busy", MaxWaiting+5, 1)
			same(w.T, "that lost their places", fmt.Sprint(len(lost["busy"]), len(lost["other"])), "501 200")
			fill("third", 1)
			come("third", 0, 1)
			shares := func() string {
				w.Queue.mu.Lock()
				defer w.Queue.mu.Unlock()
				return fmt.Sprint(len(w.places["busy"]), len(w.places["other"]), len(w.places["third"]))
			}
			before := shares() // one has 499 and the other 500
			come("busy", MaxWaiting+6, 1)
			same(w.T, "shares after one more", shares(), before)
			come("other", 700, 1)
			same(w.T, "shares after one more", shares(), before)
			w.End()
			w.all.Wait()
			same(w.T, "that heard", fmt.Sprint(heard), "map[busy:1007 other:701 third:1]")
			same(w.T, "kept", len(w.lines)+len(w.places)+len(w.sharedWaits)+w.waiting, 0)
		})
	}
}

// A repeated ID that waits while the first one does gets its answer, when it comes, and counts
// once. It has no turn of its own.
func TestQueueAnswersARepeatedIDThatWaits(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.come(w.Context(), 0, 1, 0)
		var answers []string
		told := map[*State]bool{}
		wait := func(ctx context.Context, id string, most time.Duration) {
			w.all.Go(func() {
				bounded, cancel := context.WithTimeout(ctx, most)
				defer cancel()
				r := w.request(id, "a")
				r.Repeated = true
				d, err := w.Wait(bounded, r, w.ask)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(d.Rules) > 0 {
					told[&d.Rules[0]] = true
				}
				answers = append(answers, fmt.Sprint(id, " ", d.Admitted, " at ", time.Since(w.began), " ",
					errors.Is(err, context.Canceled)))
			})
			synctest.Wait()
		}
		wait(w.Context(), "first", 30*time.Second)
		wait(w.Context(), "first", 15*time.Second)
		wait(w.Context(), "first", 5*time.Second) // ends before
		ctx, leave := context.WithCancel(w.Context())
		wait(ctx, "first", 30*time.Second)
		wait(w.Context(), "second", 21*time.Second) // only one is before it
		calls := w.count(&w.calls)
		time.Sleep(6 * time.Second)
		leave()
		w.all.Wait()
		slices.Sort(answers)
		same(w.T, "answers", fmt.Sprintf("%q", answers),
			`["first false at 5s false" "first false at 6s true" "first true at 10s false" "first true at 10s false" "second true at 20s false"]`)
		same(w.T, "calls", w.count(&w.calls)-calls < 10, true)
		same(w.T, "answers of their own", len(told), 4)
		same(w.T, "kept", len(w.lines)+len(w.places)+len(w.sharedWaits)+w.waiting, 0)
	})
}

// A repetition goes on by itself when the first one leaves without a place, and needs a place of
// the queue.
func TestQueueLetsARepeatedIDGoOn(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.come(w.Context(), 0, 1, 0)
		same(w.T, "waiting", w.taken(), 0)
		r := w.request("1", "a")
		r.Repeated = true
		first, leave := context.WithCancel(w.Context())
		w.all.Go(func() { _, _ = w.Wait(first, r, w.ask) })
		synctest.Wait()
		second := make(chan Decision, 1)
		w.all.Go(func() {
			d, err := w.Wait(w.Context(), r, w.ask)
			if err != nil {
				w.Error(err)
			}
			second <- d
		})
		synctest.Wait()
		same(w.T, "waiting", w.taken(), 2)
		leave()
		synctest.Wait()
		same(w.T, "waiting", w.taken(), 1)
		same(w.T, "admitted", (<-second).Admitted, true)
		same(w.T, "since", time.Since(w.began), 10*time.Second)
		w.all.Wait()
	})
}

// The answer that comes with an error is none.
func TestQueueRepeatsNoError(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		r := w.request("1", "a")
		r.Repeated = true
		w.all.Go(func() {
			_, err := w.Wait(w.Context(), r, func(context.Context, Request) (Decision, error) {
				time.Sleep(time.Second)
				return Decision{Admitted: true}, ErrUnavailable
			})
			same(w.T, "the first's", errors.Is(err, ErrUnavailable), true)
		})
		synctest.Wait()
		d, err := w.Wait(w.Context(), r, w.ask)
		same(w.T, "the second's", fmt.Sprint(d.Admitted, len(d.Rules), err), "true 1 <nil>")
		w.all.Wait()
	})
}

// Repetitions are bounded as other callers are, and their places may be taken.
func TestQueueBoundsRepetitions(t *testing.T) {
	queued(t, 1, 20*time.Second, func(w *waiters) {
		w.come(w.Context(), 0, 1, 0)
		r := w.request("again", "a")
		r.Repeated, r.Tenant = true, "busy"
		refused := 0
		ctx, end := context.WithCancel(w.Context())
		for range MaxWaiting + 10 {
			w.all.Go(func() {
				if d, err := w.Wait(ctx, r, w.ask); err == nil && !d.Admitted {
					w.mu.Lock()
					defer w.mu.Unlock()
					refused++
				}
			})
		}
		synctest.Wait()
		same(w.T, "waiting and refused", fmt.Sprint(w.taken(), " ", w.count(&refused)), "1000 10")
		w.come(w.Context(), 1, 1, time.Hour)
		same(w.T, "waiting and refused", fmt.Sprint(w.taken(), " ", w.count(&refused)), "1000 11")
		end()
		w.all.Wait()
	})
}

// Each rule tells how long a caller waits at least behind others: as long as it does if they are
// all that come.
func TestWaitBehindOthers(t *testing.T) {
	now := time.Date(2030, 3, 1, 12, 59, 0, 0, time.UTC)
	sliding, hourly := Rule{Limit: 3, Window: time.Minute}, Rule{Limit: 3, Per: Hour}
	dates := Rule{Limit: 1, Days: 2}
	for _, c := range []struct {
		state State
		ahead int
		want  time.Duration
	}{
		{State{Rule: sliding, Used: 1, ResetAfter: 7 * time.Second}, 1, 0},
		{State{Rule: sliding, Used: 1, ResetAfter: 7 * time.Second}, 2, 7 * time.Second},
		{State{Rule: sliding, Used: 1, ResetAfter: 7 * time.Second}, 5, 67 * time.Second},
		{State{Rule: sliding}, 3, time.Minute},
		{State{Rule: sliding, Used: 4, ResetAfter: time.Second, RetryAfter: 5 * time.Second}, 2, 5 * time.Second},
		{State{Rule: sliding, Used: 4, ResetAfter: time.Second, RetryAfter: 5 * time.Second}, 3, 65 * time.Second},
		{State{Rule: hourly, Used: 3, ResetAfter: time.Minute, RetryAfter: time.Minute}, 2, time.Minute},
		{State{Rule: hourly, Used: 3, ResetAfter: time.Minute, RetryAfter: time.Minute}, 3, 61 * time.Minute},
		{State{Rule: hourly}, 3, time.Minute},
		{State{Rule: dates}, 1, 35*time.Hour + time.Minute},
		{State{Rule: Rule{Scope: Failures, Limit: 1, Window: time.Minute}, Used: 1, RetryAfter: time.Second}, 9, time.Second},
	} {
		same(t, fmt.Sprintf("%+v behind %d", c.state, c.ahead), c.state.minWaitBehind(c.ahead, now), c.want)
	}
}
