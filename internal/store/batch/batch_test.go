package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

const writers = 2

type call = Call[store.Intent, store.BeginAnswer]

// gatedRuns is a batcher of Begins. Each round trip sends its batch to begun and waits for end.
type gatedRuns struct {
	*Batcher[store.Intent, store.BeginAnswer]
	begun chan []*call
	end   chan struct{}
}

// gated runs a test with a batcher in a bubble, and then closes the batcher.
func gated(t *testing.T, test func(t *testing.T, g *gatedRuns)) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		g := &gatedRuns{begun: make(chan []*call), end: make(chan struct{})}
		g.Batcher = New(writers, func(batch []*call) {
			g.begun <- batch
			<-g.end
			for _, x := range batch {
				x.SetAnswer(store.BeginAnswer{Admitted: true}, nil)
			}
		})
		test(t, g)
		g.Close()
	})
}

func TestBatcherSharesRoundTrips(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		start := time.Now()
		call := func(key int64) { storetest.Must(g.Submit(t.Context(), store.Intent{}, key))(t) }
		for key, wait := range []time.Duration{0, extraWriterWait} {
			go call(int64(key))
			storetest.Equal(t, "first calls go alone", len(<-g.begun), 1)
			storetest.Equal(t, "time waited", time.Since(start), wait)
		}
		for key := range int64(600) {
			go call(2 + key)
		}
		synctest.Wait() // a third round trip would now wait to send to begun
		select {
		case <-g.begun:
			t.Error("more than two round trips at once")
		default:
		}
		for _, want := range []int{256, 256, 88} {
			g.end <- struct{}{}
			storetest.Equal(t, "calls in the next round trip", len(<-g.begun), want)
		}
		g.end <- struct{}{}
		g.end <- struct{}{}
	})
}

// A second writer starts at once if extraWriterQueueLength calls are queued. MinInterval lets a
// writer gather calls, but does not delay a call when no writer is busy.
func TestBatcherGathersCalls(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		start := time.Now()
		g.MinInterval = time.Second
		for key := range int64(1 + extraWriterQueueLength) {
			go func() { _, _ = g.Submit(t.Context(), store.Intent{}, key) }()
			synctest.Wait()
		}
		for _, want := range []int{1, extraWriterQueueLength} {
			storetest.Equal(t, "calls in a batch", len(<-g.begun), want)
			storetest.Equal(t, "time waited", time.Since(start), 0)
		}
		go func() { _, _ = g.Submit(t.Context(), store.Intent{}, 100) }()
		synctest.Wait()
		g.end <- struct{}{}
		g.end <- struct{}{}
		storetest.Equal(t, "calls after the pause", len(<-g.begun), 1)
		storetest.Equal(t, "pause", time.Since(start), time.Second)
		g.end <- struct{}{}
		synctest.Wait()
		go func() { _, _ = g.Submit(t.Context(), store.Intent{}, 101) }()
		<-g.begun
		storetest.Equal(t, "pause before a call alone", time.Since(start), time.Second)
		g.end <- struct{}{}
	})
}

// After a slow batch, batches are smaller, until a full batch is quick again.
func TestBatcherMakesSmallerBatchesWhenTheyAreSlow(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		g.maxWriters, g.Slow = 1, time.Second
		patient, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		call := func(key int64) {
			go func() { _, _ = g.Submit(patient, store.Intent{}, key) }()
		}
		call(0)
		<-g.begun
		for key := range int64(1000) {
			call(1 + key)
		}
		synctest.Wait()
		g.end <- struct{}{}
		for _, c := range []struct {
			calls int
			took  time.Duration
		}{
			{256, 1001 * time.Millisecond},
			{128, time.Second},
			{128, 1001 * time.Millisecond},
			{64, time.Minute},
			{32, time.Minute},
			{16, time.Minute},
			{16, 500 * time.Millisecond},
			{16, 499 * time.Millisecond},
			{32, 0},
			{64, 0},
			{128, 0},
			{120, 0},
		} {
			storetest.Equal(t, "calls in a batch", len(<-g.begun), c.calls)
			time.Sleep(c.took)
			g.end <- struct{}{}
		}
		g.Close()
		storetest.Equal(t, "calls in a batch at most", g.maxSize, 256)
	})
}

// Of the calls with one key only the oldest is under way, whatever calls with other keys do.
func TestBatcherKeepsKeysApart(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		for _, key := range []int64{1, 1, 2, 1} {
			go func() { _, _ = g.Submit(t.Context(), store.Intent{}, key) }()
			synctest.Wait()
		}
		one, two := <-g.begun, <-g.begun
		storetest.Equal(t, "keys under way", one[0].Key+two[0].Key, 3)
		g.end <- struct{}{}
		g.end <- struct{}{}
		for range 2 {
			storetest.Equal(t, "calls in a round trip", len(<-g.begun), 1)
			synctest.Wait() // the other writer finds the key under way, and ends
			g.end <- struct{}{}
		}
		g.Close()
		storetest.Equal(t, "queued", len(g.queued), 0)
		storetest.Equal(t, "busy", len(g.busy), 0)
		storetest.Equal(t, "active", g.active, 0)
	})
}

// If more calls wait than fit into a batch, the calls with the lowest Precedence go first, and of
// these the oldest.
func TestBatcherTurn(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		g.maxWriters, g.maxSize = 1, 2
		g.Precedence = func(in store.Intent) int { return in.Send.Number }
		for key, turn := range []int{0, 1, 1, 0, 1, 0} {
			in := store.Intent{Send: store.Send{Number: turn}}
			go func() { storetest.Must(g.Submit(t.Context(), in, int64(key)))(t) }()
			synctest.Wait()
		}
		var taken [][]int64
		for range 4 {
			var keys []int64
			for _, x := range <-g.begun {
				keys = append(keys, x.Key)
			}
			taken = append(taken, keys)
			g.end <- struct{}{}
		}
		storetest.Equal(t, "calls of each batch", taken, [][]int64{{0}, {3, 5}, {1, 2}, {4}})
	})
}

func TestBatcherWithCanceledCallers(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		ctx, cancel := context.WithCancel(t.Context())
		results := map[string]chan error{}
		leave := func(name string, key int64) {
			results[name] = make(chan error, 1)
			go func() { _, err := g.Submit(ctx, store.Intent{}, key); results[name] <- err }()
		}
		leave("under way", 1)
		<-g.begun
		leave("waiting", 1)
		synctest.Wait()
		cancel()
		storetest.Certain(t, <-results["waiting"])
		err := <-results["under way"]
		storetest.Is(t, err, fault.Unavailable)
		storetest.Is(t, err, fault.Uncertain)
		storetest.Is(t, err, context.Canceled)
		go g.Close()
		g.end <- struct{}{} // only one round trip, because the waiting call was withdrawn
		synctest.Wait()
		storetest.Is(t, storetest.Err(g.Submit(t.Context(), store.Intent{}, 1)), errClosed)
	})
}

// With WaitsOnceBegun, Submit does not return before the call's batch has ended, once the batch has
// begun.
func TestBatcherWaits(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		g.WaitsOnceBegun = true
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 2)
		for range 2 {
			go func() { _, err := g.Submit(ctx, store.Intent{}, 1); answer <- err }()
			synctest.Wait()
		}
		<-g.begun
		cancel()
		storetest.Certain(t, <-answer) // the waiting call was withdrawn
		synctest.Wait()
		storetest.Equal(t, "answers", len(answer), 0)
		g.end <- struct{}{}
		storetest.OK(t, <-answer)
	})
}

// A call without a deadline ends after store.CallTimeout, whether its batch has begun or not.
func TestBatcherBoundsCalls(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		began, answers := time.Now(), make(chan error, 2)
		for range 2 {
			go func() { _, err := g.Submit(context.Background(), store.Intent{}, 1); answers <- err }()
		}
		<-g.begun
		for range 2 {
			storetest.Is(t, <-answers, context.DeadlineExceeded)
		}
		storetest.Equal(t, "time waited", time.Since(began), store.CallTimeout)
		g.end <- struct{}{}
	})
}

func TestBatcherBound(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		ctx, cancel := context.WithCancel(t.Context())
		for range maxQueued + 1 {
			go func() { _, _ = g.Submit(ctx, store.Intent{}, 1) }()
		}
		<-g.begun
		synctest.Wait()
		_, err := g.Submit(t.Context(), store.Intent{}, 2)
		storetest.Is(t, err, errQueueFull)
		storetest.Certain(t, err)
		cancel()
		synctest.Wait()
		g.end <- struct{}{}
	})
}

type traceKey struct{}

// The context of a round trip has the values of the oldest call's context, and does not end with
// it.
func TestRoundTripContextIsThatOfTheOldestCall(t *testing.T) {
	gated(t, func(t *testing.T, g *gatedRuns) {
		submit := func(ctx context.Context, name string, key int64) {
			go func() { _, _ = g.Submit(context.WithValue(ctx, traceKey{}, name), store.Intent{}, key) }()
			synctest.Wait()
		}
		submit(t.Context(), "alone", 1)
		<-g.begun
		ctx, cancel := context.WithCancel(t.Context())
		submit(ctx, "oldest", 2)
		submit(t.Context(), "youngest", 3)
		shared := <-g.begun // after extraWriterWait
		cancel()
		trip := shared[0].RoundTripContext()
		storetest.Equal(t, "calls", len(shared), 2)
		storetest.Equal(t, "the trip's value", trip.Value(traceKey{}), any("oldest"))
		storetest.Equal(t, "the trip's error", trip.Err(), nil)
		storetest.Equal(t, "a call of no caller", NewCall[store.Intent, store.BeginAnswer](store.Intent{}, 4).RoundTripContext().Err(), nil)
		close(g.end)
	})
}
