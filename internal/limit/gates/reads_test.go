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
			return r.read(t.Context(), key, time.Now, read)
		}
		for range readBurst + 1 { // so that the next one waits for its turn
			ask(func(context.Context) (int, error) { return 1, nil })
		}
		first, joined := make(chan any), make(chan *sharedRead[int])
		go func() {
			defer func() { first <- recover() }()
			ask(func(context.Context) (int, error) { panic("broken") })
		}()
		synctest.Wait()
		go func() { joined <- ask(nil) }()
		servertest.Same(t, "the panic goes on", <-first, any("broken"))
		if x := <-joined; !errors.Is(x.err, fault.Unavailable) {
			t.Errorf("joined: %+v", x)
		}
		servertest.Same(t, "slots held", len(r.others), 0)
	})
}
