package quota

import (
	"cmp"
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

// waiters are callers of a queue in front of a limiter, in a bubble of testing/synctest.
type waiters struct {
	*testing.T
	*Queue
	*Memory
	rules    []Rule
	began    time.Time
	mu       sync.Mutex
	calls    int // how many calls the limiter got
	admitted []int
	at       []time.Duration // when each caller was admitted, since the start
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

// waiting returns how many callers of a tenant wait.
func (w *waiters) waiting(tenant string) int {
	w.Queue.mu.Lock()
	defer w.Queue.mu.Unlock()
	return w.Queue.waiting[tenant]
}

// count reads n under w.mu, because callers change it.
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
	err = cmp.Or(err, ctx.Err())
	if i, parseErr := strconv.Atoi(r.ID); parseErr == nil && d.Admitted && !r.Repeated {
		w.admitted, w.at = append(w.admitted, i), append(w.at, time.Since(w.began))
	}
	return d, err
}

// startCallers makes n callers arrive at the same instant, in the order of their numbers. Each
// waits at most until its timeout.
func (w *waiters) startCallers(ctx context.Context, first, n int, timeout time.Duration) {
	for i := first; i < first+n; i++ {
		w.all.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, timeout)
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

// checkOrderAndLimit checks the order of the admissions, and that no window has more than the
// limit.
func (w *waiters) checkOrderAndLimit() {
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
		least, most, refused int // the numbers of callers admitted in 30 s, and of callers refused at once
	}{{100, time.Minute, 100, 100, 400}, {10, time.Second, 300, 310, 190}} {
		queued(t, c.limit, c.window, func(w *waiters) {
			w.startCallers(w.Context(), 0, 500, 30*time.Second)
			w.all.Wait()
			w.checkOrderAndLimit()
			if n := len(w.admitted); n < c.least || n > c.most || w.refused[0] != c.refused || c.limit == 10 && w.calls > 310+31 {
				w.Errorf("%d a %v: %d admitted, refused after %v, %d calls", c.limit, c.window, n, w.refused, w.calls)
			}
		})
	}
}

// If a caller leaves, the callers behind it move up. A caller that does not wait is refused while
// others wait for the place. A repeated ID is answered at once.
func TestQueueFreesTheTurnOfACallerThatLeaves(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 1, 0)
		ctx, leave := context.WithCancel(w.Context())
		left := make(chan error, 2)
		for i := range 2 { // the first two callers in the line
			go func() {
				_, err := w.Wait(ctx, w.request(fmt.Sprint("leaves", i), "a"), w.ask)
				left <- err
			}()
			synctest.Wait()
		}
		w.startCallers(w.Context(), 1, 1, 15*time.Second) // behind two callers, its turn would come too late
		same(w.T, "refused at once", w.refused[0], 1)
		d, err := w.Queue.Take(w.Context(), w.request("plain", "a"), w.ask)
		must(w.T, err)
		same(w.T, "a plain take", d.Admitted, false)
		same(w.T, "its wait", d.RetryAfter(), 30*time.Second)
		d, err = w.Queue.Take(w.Context(), w.request("plain", "other"), w.ask)
		must(w.T, err)
		same(w.T, "another line", d.Admitted, true)
		again := w.request("0", "a")
		again.Repeated = true
		d, err = w.Queue.Take(w.Context(), again, w.ask)
		must(w.T, err)
		same(w.T, "a repeated ID", d.Admitted, true)
		time.Sleep(time.Second)
		leave()
		for range 2 {
			if err := <-left; !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		w.startCallers(w.Context(), 2, 1, 15*time.Second)
		w.all.Wait()
		sameList(w.T, "admitted", w.admitted, []int{0, 2})
		sameList(w.T, "when", w.at, []time.Duration{0, 10 * time.Second})
		same(w.T, "kept", len(w.lines)+len(w.Queue.waiting), 0)
	})
}

// If an answer shows that the callers behind cannot be admitted in time, they are refused at once.
func TestQueueRefusesAsSoonAsItIsClear(t *testing.T) {
	queued(t, 2, 20*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 1, 0)
		time.Sleep(15 * time.Second)
		w.startCallers(w.Context(), 1, 1, 0)
		w.startCallers(w.Context(), 2, 2, 10*time.Second)
		w.all.Wait()
		sameList(w.T, "admitted", w.admitted, []int{0, 1, 2})
		sameList(w.T, "when", w.at, []time.Duration{0, 15 * time.Second, 20 * time.Second})
		same(w.T, "refused", fmt.Sprint(w.refused), "map[5s:1]")
	})
}

// If an answer admits the first caller, the callers right behind it get the other places of the
// same window. Their time is too short to wait for the next window.
func TestQueueAdmitsAsManyAsThereArePlaces(t *testing.T) {
	queued(t, 3, 20*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 3, 0)
		w.startCallers(w.Context(), 3, 4, 25*time.Second)
		w.all.Wait()
		sameList(w.T, "admitted", w.admitted, []int{0, 1, 2, 3, 4, 5})
		same(w.T, "refused", fmt.Sprint(w.refused), "map[0s:1]")
	})
}

// At most MaxWaiting callers of a tenant wait. When the queue ends, all return at once, and none
// waits any more.
func TestQueueIsBoundedAndEnds(t *testing.T) {
	queued(t, MaxWaiting, 20*time.Second, func(w *waiters) {
		for i := range MaxWaiting {
			_, _ = w.Memory.Take(w.Context(), w.request(fmt.Sprint("before", i), "a"))
		}
		w.startCallers(w.Context(), 0, MaxWaiting, time.Minute)
		same(w.T, "waiting", w.waiting(""), MaxWaiting)
		w.startCallers(w.Context(), MaxWaiting, 10, time.Minute)
		same(w.T, "refused at once", w.refused[0], 10)
		other := w.request("other", "a")
		other.Tenant = "other"
		w.all.Go(func() {
			d, err := w.Wait(w.Context(), other, w.ask)
			same(w.T, "another tenant's error", err, nil)
			same(w.T, "another tenant", d.Admitted, false)
			same(w.T, "another tenant, after", time.Since(w.began), time.Second)
		})
		synctest.Wait()
		same(w.T, "waiting of another tenant", w.waiting("other"), 1)
		time.Sleep(time.Second)
		w.End()
		w.all.Wait()
		same(w.T, "refused at the end", w.refused[time.Second], MaxWaiting)
		w.startCallers(w.Context(), 0, 1, 0)
		w.all.Wait()
		same(w.T, "refused after the end", w.refused[0], 11)
		same(w.T, "kept", len(w.lines)+len(w.Queue.waiting), 0)
	})
}

// If an ID is repeated while its first caller waits, the repeated call gets the same answer when it
// comes. The ID counts once and has no place of its own in the line.
func TestQueueAnswersARepeatedIDThatWaits(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 1, 0)
		var answers []string
		distinctStates := map[*State]bool{}
		wait := func(ctx context.Context, id string, timeout time.Duration) {
			w.all.Go(func() {
				bounded, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				r := w.request(id, "a")
				r.Repeated = true
				d, err := w.Wait(bounded, r, w.ask)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(d.Rules) > 0 {
					distinctStates[&d.Rules[0]] = true
				}
				answers = append(answers, fmt.Sprint(id, " ", d.Admitted, " at ", time.Since(w.began), " ",
					errors.Is(err, context.Canceled)))
			})
			synctest.Wait()
		}
		wait(w.Context(), "first", 30*time.Second)
		wait(w.Context(), "first", 15*time.Second)
		wait(w.Context(), "first", 5*time.Second) // its time ends before its turn
		ctx, leave := context.WithCancel(w.Context())
		wait(ctx, "first", 30*time.Second)
		wait(w.Context(), "second", 21*time.Second) // only one caller is before it
		calls := w.count(&w.calls)
		time.Sleep(6 * time.Second)
		leave()
		w.all.Wait()
		slices.Sort(answers)
		same(w.T, "answers", fmt.Sprintf("%q", answers),
			`["first false at 5s false" "first false at 6s true" "first true at 10s false" "first true at 10s false" "second true at 20s false"]`)
		same(w.T, "calls", w.count(&w.calls)-calls < 10, true)
		same(w.T, "answers of their own", len(distinctStates), 4)
		same(w.T, "kept", len(w.lines)+len(w.Queue.waiting)+len(w.sharedWaits), 0)
	})
}

// If the first caller with an ID leaves without a place, the second caller with the ID goes on
// alone, and needs a place in the queue.
func TestQueueLetsARepeatedIDGoOn(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 1, 0)
		same(w.T, "waiting", w.waiting(""), 0)
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
		same(w.T, "waiting", w.waiting(""), 2)
		leave()
		synctest.Wait()
		same(w.T, "waiting", w.waiting(""), 1)
		same(w.T, "admitted", (<-second).Admitted, true)
		same(w.T, "since", time.Since(w.began), 10*time.Second)
		w.all.Wait()
	})
}

// If a repeated ID was already counted, one call of the limiter answers the repetition, which waits
// in no line.
func TestQueueAnswersAnAdmittedRepetitionAtOnce(t *testing.T) {
	queued(t, 1, 10*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 1, 0)
		r := w.request("0", "a")
		r.Repeated = true
		calls, began := w.count(&w.calls), time.Now()
		d, err := w.Wait(w.Context(), r, func(ctx context.Context, r Request) (Decision, error) {
			same(w.T, "waiting during the call", w.waiting(""), 0)
			return w.ask(ctx, r)
		})
		if err != nil {
			w.Error(err)
		}
		same(w.T, "admitted", d.Admitted, true)
		same(w.T, "calls", w.count(&w.calls)-calls, 1)
		same(w.T, "took", time.Since(began), 0)
	})
}

// If a call fails, its answer is not used for repetitions.
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
		must(w.T, err)
		same(w.T, "the second's", d.Admitted, true)
		same(w.T, "the second's rules", len(d.Rules), 1)
		w.all.Wait()
	})
}

// The bound on waiting callers includes repetitions.
func TestQueueBoundsRepetitions(t *testing.T) {
	queued(t, 1, 20*time.Second, func(w *waiters) {
		w.startCallers(w.Context(), 0, 1, 0)
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
		same(w.T, "waiting", w.waiting("busy"), 1000)
		same(w.T, "refused", w.count(&refused), 10)
		end()
		w.all.Wait()
	})
}

// For each rule, the least wait of a caller behind others equals its real wait if no other callers
// come.
func TestMinWaitBehind(t *testing.T) {
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
		{State{Rule: Rule{Recorded: true, Limit: 1, Window: time.Minute}, Used: 1, RetryAfter: time.Second}, 9, time.Second},
	} {
		same(t, fmt.Sprintf("%+v behind %d", c.state, c.ahead), c.state.minWaitBehind(c.ahead, now), c.want)
	}
}
