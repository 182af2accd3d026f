package gates

import (
	"context"
	"errors"
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

// A caller waits for a read of another caller no longer than its own context lasts. The read goes
// on.
func TestWhoJoinsASharedReadMayLeave(t *testing.T) {
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
