package postgres

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/recipient"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// gatedRuns is a batcher of Begins whose round trips wait to be let through.
type gatedRuns struct {
	*batcher[store.Intent, store.Begun]
	begun chan []*call
	end   chan struct{}
}

func newGatedRuns() *gatedRuns {
	g := &gatedRuns{begun: make(chan []*call), end: make(chan struct{})}
	g.batcher = newBatcher(maxWriters, func(batch []*call) {
		g.begun <- batch
		<-g.end
		for _, x := range batch {
			x.finish(store.Begun{Admitted: true}, nil)
		}
	})
	return g
}

func TestCoalescerSharesRoundTrips(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		start, g := time.Now(), newGatedRuns()
		call := func(key int64) {
			storetest.Must(g.submit(t.Context(), store.Intent{}, store.Held{}, key))(t)
		}
		for key := range int64(2) {
			go call(key)
			storetest.Equal(t, "first calls go alone", len(<-g.begun), 1)
		}
		storetest.Equal(t, "time waited", time.Since(start), 0)
		for key := range int64(600) {
			go call(2 + key)
		}
		synctest.Wait() // a third round trip would block on begun; none is
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
		g.close()
	})
}

// Of the calls with one key one is under way, the oldest first, whatever the others do.
func TestCoalescerKeepsKeysApart(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		g := newGatedRuns()
		for _, key := range []int64{1, 1, 2, 1} {
			go func() { _, _ = g.submit(t.Context(), store.Intent{}, store.Held{}, key) }()
			synctest.Wait()
		}
		one, two := <-g.begun, <-g.begun
		storetest.Equal(t, "keys under way", one[0].key+two[0].key, 3)
		g.end <- struct{}{}
		g.end <- struct{}{}
		for range 2 {
			storetest.Equal(t, "calls in a round trip", len(<-g.begun), 1)
			synctest.Wait() // the other writer finds the key under way, and ends
			g.end <- struct{}{}
		}
		g.close()
		storetest.Equal(t, "left", fmt.Sprint(len(g.queued), len(g.busy), g.active), "0 0 0")
	})
}

func TestCoalescerCallersWhoLeave(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		g := newGatedRuns()
		ctx, cancel := context.WithCancel(t.Context())
		results := map[string]chan error{}
		leave := func(name string, key int64) {
			results[name] = make(chan error, 1)
			go func() { _, err := g.submit(ctx, store.Intent{}, store.Held{}, key); results[name] <- err }()
		}
		leave("under way", 1)
		<-g.begun
		leave("waiting", 1)
		synctest.Wait()
		cancel()
		err := <-results["waiting"]
		storetest.Certain(t, err)
		err = <-results["under way"]
		storetest.Is(t, err, fault.Unavailable)
		storetest.Is(t, err, fault.Uncertain)
		storetest.Is(t, err, context.Canceled)
		go g.close()
		g.end <- struct{}{} // one round trip alone: the call that waited was withdrawn
		synctest.Wait()
		storetest.Is(t, storetest.Err(g.submit(t.Context(), store.Intent{}, store.Held{}, 1)), errClosed)
	})
}

func TestCoalescerBound(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		g := newGatedRuns()
		ctx, cancel := context.WithCancel(t.Context())
		for range maxWaiting + 1 {
			go func() { _, _ = g.submit(ctx, store.Intent{}, store.Held{}, 1) }()
		}
		<-g.begun
		synctest.Wait()
		_, err := g.submit(t.Context(), store.Intent{}, store.Held{}, 2)
		storetest.Is(t, err, errFull)
		storetest.Certain(t, err)
		cancel()
		synctest.Wait()
		g.end <- struct{}{}
		g.close()
	})
}

// Two replicas lock the same recipients in the same order, however their batches came about.
func TestLocksAreTakenInOrder(t *testing.T) {
	var batch []*call
	for _, key := range []int64{5, -3, 9, 0, -7} {
		batch = append(batch, &call{key: key})
	}
	storetest.Equal(t, "keys", sortedKeys(batch), []int64{-7, -3, 0, 5, 9})

	a := store.Send{App: "a", Channel: "b"}
	for _, other := range []store.Send{{App: "ab", Channel: ""}, {App: "", Channel: "ab"},
		{App: "a", Channel: "b", Recipient: recipient.Hash{1}}} {
		if store.LockKey(a) == store.LockKey(other) {
			t.Errorf("one key for %+v and %+v", a, other)
		}
	}
	storetest.Equal(t, "key of another purpose", store.LockKey(store.Send{App: "a", Channel: "b", Purpose: "c"}), store.LockKey(a))
}
