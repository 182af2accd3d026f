package verification

import (
	"context"
	"sync"
	"time"
)

// A repeated request waits for the answer to the first request with its key, until its own
// deadline. If the first request is in this process, the repeated request waits in keyTurns. While
// it waits, it holds no slot of the recipient, is not counted by package admission and runs no
// database statement. If the first request is in another process, one repeated request tries again
// and again to claim the key. All other repeated requests of this process wait for that one. If
// more requests wait than these constants allow, the next one gets ErrKeyInProgress at once.
const (
	maxWaitingPerKey = 32   // requests of this process that wait for one key
	maxWaiting       = 1024 // for all keys
	minClaimInterval = 100 * time.Millisecond
	maxClaimInterval = time.Second
)

// keyTurns lets one request of this process at a time work on an idempotency key.
type keyTurns struct {
	mu      sync.Mutex
	turns   map[turnName]*keyTurn
	waiting int
}

// turnName has the hashes of a key and of a request's content. So a request with the same key but
// other content delays no repeated request.
type turnName struct{ key, fingerprint [32]byte }

// keyTurn is the turn of one request; nil: the request needs no turn.
type keyTurn struct {
	turns    *keyTurns
	name     turnName
	waiting  int
	once     sync.Once
	ended    chan struct{}
	admitted bool // set before ended is closed
}

// takeTurn waits until it is the request's turn to work on its Idempotency-Key in this process. The
// caller must end the turn. If the request has no key, or if the previous request with the turn was
// admitted, no turn is needed and takeTurn returns nil. Error: ErrKeyInProgress if the client hangs
// up, if the time for the decision ends, or if too many requests wait.
func (s *sendService) takeTurn(client, deciding context.Context, r *parsedRequest) (*keyTurn, error) {
	if r.IdempotencyKey == "" {
		return nil, nil
	}
	name := turnName{s.idempotencyKeyHash(sendKeyLabel, r.Caller), s.fingerprint(r)}
	for {
		own, before := s.turns.takeOrJoin(name)
		if own != nil {
			return own, nil
		}
		if before == nil || !s.turns.waitFor(client, deciding, before) {
			return nil, ErrKeyInProgress
		}
		if before.admitted {
			return nil, nil
		}
	}
}

// takeOrJoin takes the turn with the name, if it is free. In this case the result own is the
// caller's new turn. If another request has the turn, the caller joins the requests that wait for
// it. In this case the result before is the other request's turn. If too many requests wait, both
// results are nil.
func (k *keyTurns) takeOrJoin(name turnName) (own, before *keyTurn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before = k.turns[name]
	switch {
	case before == nil:
		if k.turns == nil {
			k.turns = map[turnName]*keyTurn{}
		}
		own = &keyTurn{turns: k, name: name, ended: make(chan struct{})}
		k.turns[name] = own
		return own, nil
	case before.waiting >= maxWaitingPerKey:
		return nil, nil
	}
	before.waiting++
	return nil, before
}

// waitFor waits for the end of a turn that the caller has joined. It returns false in the same
// cases as wait.
func (k *keyTurns) waitFor(client, deciding context.Context, turn *keyTurn) bool {
	ended := k.wait(client, deciding, turn.ended)
	k.mu.Lock()
	defer k.mu.Unlock()
	turn.waiting--
	return ended
}

// end ends the turn, so that the waiting requests continue. If the request was admitted, the
// waiting requests continue without a turn. Later calls of end do nothing.
func (k *keyTurn) end(admitted bool) {
	if k == nil {
		return
	}
	k.once.Do(func() {
		k.turns.mu.Lock()
		defer k.turns.mu.Unlock()
		delete(k.turns.turns, k.name)
		k.admitted = admitted
		close(k.ended)
	})
}

// pause waits for d. False: as of wait.
func (k *keyTurns) pause(client, deciding context.Context, d time.Duration) bool {
	over := make(chan struct{})
	defer time.AfterFunc(d, func() { close(over) }).Stop()
	return k.wait(client, deciding, over)
}

// wait waits until the channel over is closed. It returns false if the client hung up, if the time
// for the decision ended, or if too many requests wait.
func (k *keyTurns) wait(client, deciding context.Context, over <-chan struct{}) bool {
	k.mu.Lock()
	full := k.waiting >= maxWaiting
	if !full {
		k.waiting++
	}
	k.mu.Unlock()
	if full {
		return false
	}
	defer func() {
		k.mu.Lock()
		k.waiting--
		k.mu.Unlock()
	}()
	select {
	case <-over:
		return true
	case <-client.Done():
	case <-deciding.Done():
	}
	return false
}
