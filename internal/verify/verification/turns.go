package verification

import (
	"sync"
	"time"
)

// A repeated request waits for the answer of the first request with its key, within its own
// deadline. If both are in one process, it waits in keyTurns, without a slot, a place in the
// admission or a statement. In another process, the first repeated request tries to claim the key
// again and again, and all others wait for it. Beyond these bounds a repeated request gets
// ErrKeyInProgress at once.
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

// takeTurn waits for the turn of the request's Idempotency-Key in this process. If the request that
// had the turn was admitted, it returns nil, since a repeated request needs no turn then. The
// caller must end the turn. Error: ErrKeyInProgress after the end of the client or of the
// decision's time, or if too many requests wait.
func (s *sendService) takeTurn(t sendTime, r *parsedRequest) (*keyTurn, error) {
	if r.IdempotencyKey == "" {
		return nil, nil
	}
	name := turnName{s.idempotencyKeyHash(sendKeyLabel, r.Caller), s.fingerprint(r)}
	for {
		own, before := s.turns.takeOrJoin(name)
		if own != nil {
			return own, nil
		}
		if before == nil || !s.turns.waitFor(t, before) {
			return nil, ErrKeyInProgress
		}
		if before.admitted {
			return nil, nil
		}
	}
}

// takeOrJoin takes the turn of a name (own). If another request has the turn (before), it joins the
// requests that wait for that one. If too many requests wait, both are nil.
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

// waitFor waits for the end of a turn that the caller has joined. False: as of wait.
func (k *keyTurns) waitFor(t sendTime, turn *keyTurn) bool {
	ended := k.wait(t, turn.ended)
	k.mu.Lock()
	defer k.mu.Unlock()
	turn.waiting--
	return ended
}

// end ends the turn, and the waiting requests continue. If the request was admitted, they continue
// without a turn of their own. Only the first call counts.
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
func (k *keyTurns) pause(t sendTime, d time.Duration) bool {
	over := make(chan struct{})
	defer time.AfterFunc(d, func() { close(over) }).Stop()
	return k.wait(t, over)
}

// wait waits until over is closed. False: the client hung up, the time of the decision ended, or
// too many requests wait.
func (k *keyTurns) wait(t sendTime, over <-chan struct{}) bool {
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
	case <-t.client.Done():
	case <-t.deciding.Done():
	}
	return false
}
