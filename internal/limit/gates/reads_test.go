package gates

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
)

// A shared read that panics releases its slot. Callers that joined the read get an error, not an
// empty history.
func TestASharedReadThatPanics(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		r, key := newSharedReads[int](), readKey{bucket: "b"}
		ask := func(read func(context.Context) (int, error)) *sharedRead[int] {
			return r.read(t.Context(), key, time.Now, func(int) bool { return false }, read)
		}
		go ask(func(context.Context) (int, error) { <-time.After(time.Second); return 1, nil }) // the others wait for it
		synctest.Wait()
		first, joined := make(chan any), make(chan *sharedRead[int])
		for range 2 {
			go func() {
				defer func() {
					if p := recover(); p != nil {
						first <- p
					}
				}()
				joined <- ask(func(context.Context) (int, error) { panic("broken") })
			}()
		}
		servertest.Same(t, "the panic goes on", <-first, any("broken"))
		if x := <-joined; !errors.Is(x.err, fault.Unavailable) {
			t.Errorf("joined: %+v", x)
		}
		servertest.Same(t, "slots held", len(r.others), 0)
	})
}

// However many requests of strangers need rows, other requests get theirs.
func TestSharedReadsOfStrangersDelayNoOthers(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		r, answer := newSharedReads[int](), make(chan struct{})
		var all sync.WaitGroup
		for _, c := range []struct {
			stranger bool
			atOnce   int32
		}{{true, maxReadsOfStrangers}, {false, maxReadsOfOthers}} {
			var begun atomic.Int32
			for n := range 400 {
				all.Go(func() {
					key := readKey{bucket: fmt.Sprint(n), stranger: c.stranger}
					r.read(t.Context(), key, time.Now, func(int) bool { return false }, func(context.Context) (int, error) {
						begun.Add(1)
						<-answer
						return 0, nil
					})
				})
			}
			synctest.Wait()
			servertest.Same(t, fmt.Sprintf("reads at once, of strangers: %v", c.stranger), begun.Load(), c.atOnce)
		}
		close(answer)
		all.Wait()
	})
}

// Many callers may need the rows of one recipient, while the rows of earlier reads cannot be used
// again. After readsAtOnce reads, each begins readPause after the one before, and each caller gets
// rows that were read after its call. The first caller, a caller for another recipient, and a
// caller that comes later do not wait.
func TestSharedReadsOfOneRecipientAreBounded(t *testing.T) {
	const took = time.Millisecond
	servertest.Bubble(t, func(t *testing.T) {
		r, began := newSharedReads[time.Time](), time.Now()
		var mu sync.Mutex
		var last time.Time // when the last read for the callers below began
		reads, answers := 0, 0
		ask := func(key readKey) (waited time.Duration) {
			came := time.Now()
			x := r.read(t.Context(), key, time.Now, func(time.Time) bool { return false },
				func(context.Context) (time.Time, error) {
					at := time.Now()
					time.Sleep(took)
					return at, nil
				})
			servertest.OK(t, x.err)
			if x.rows.Before(came) {
				t.Errorf("a caller that came at %v got rows of %v", came.Sub(began), x.rows.Sub(began))
			}
			return time.Since(came)
		}
		attacked := readKey{bucket: "attacked"}
		servertest.Same(t, "a first caller waits", ask(attacked), took)
		time.Sleep(reuseFor + time.Millisecond)
		servertest.Same(t, "one that comes later waits", ask(attacked), took)
		time.Sleep(reuseFor + time.Millisecond)
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for start := time.Now(); time.Since(start) < time.Second; {
					x := r.read(t.Context(), attacked, time.Now, func(time.Time) bool { return false },
						func(context.Context) (time.Time, error) {
							at := time.Now()
							mu.Lock()
							if reads++; reads > readsAtOnce && at.Sub(last) < readPause {
								t.Errorf("two reads began %v apart", at.Sub(last))
							}
							last = at
							mu.Unlock()
							time.Sleep(took)
							return at, nil
						})
					servertest.OK(t, x.err)
					mu.Lock()
					answers++
					mu.Unlock()
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		servertest.Same(t, "one of another recipient waits", ask(readKey{bucket: "another"}), took)
		if waited := ask(attacked); waited > readPause+2*took {
			t.Errorf("a caller among many waited %v", waited)
		}
		callers.Wait()
		if most := int(time.Second/readPause) + readsAtOnce + 2; reads > most || answers < 10*reads {
			t.Errorf("%d reads in a second for %d answers", reads, answers)
		}
		look := readKey{bucket: "attacked", look: true}
		servertest.Same(t, "a look waits", ask(look), took)
		servertest.Same(t, "the next look waits", ask(look), took)
	})
}

// A caller waits for a read of another caller no longer than its own context lasts. The read goes
// on.
func TestSharedReadEndsWithTheContextOfAJoiner(t *testing.T) {
	for name, first := range map[string]time.Duration{"under way": time.Second, "without a slot": 0} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				r, key := newSharedReads[int](), readKey{bucket: "b"}
				ask := func(ctx context.Context) *sharedRead[int] {
					return r.read(ctx, key, time.Now, func(int) bool { return true }, func(context.Context) (int, error) {
						<-time.After(first)
						return 1, nil
					})
				}
				for range cap(r.others) {
					if first == 0 {
						r.others <- struct{}{}
						time.AfterFunc(time.Second, func() { <-r.others })
					}
				}
				answer := make(chan *sharedRead[int])
				go func() { answer <- ask(t.Context()) }()
				synctest.Wait()
				short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				began := time.Now()
				x := ask(short)
				servertest.Same(t, "waited", time.Since(began), time.Millisecond)
				if !errors.Is(x.err, fault.Unavailable) || !errors.Is(x.err, context.DeadlineExceeded) {
					t.Errorf("joined: %+v", x)
				}
				servertest.Same(t, "the other's answer", (<-answer).rows, 1)
			})
		})
	}
}
