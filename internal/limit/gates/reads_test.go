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
