package verification

import (
	"context"
	"sync"
	"time"
)

// A repeated request waits for the answer to the first request with its key, until its own
// deadline. If the first request is in this process, the repeated one waits in keyTurns. Meanwhile
// it holds no slot of the recipient, package admission doesn't count it, and it runs no database
// statement. If the first request is in another process, one repeated request tries again and again
// to claim the key, and all others of this process wait for that one. Beyond maxWaitingPerKey or
// maxWaiting, a request gets ErrKeyInProgress at once.
const (
	maxWaitingPerKey = 32   // requests of this process that wait for one key
	maxWaiting       = 1024 // requests of this process that wait for any key; strangers' are at most half
	minClaimInterval = 100 * time.Millisecond
	maxClaimInterval = time.Second
)

// keyTurns lets one request of this process at a time work on an idempotency key.
type keyTurns struct {
	mu        sync.Mutex
	turns     map[turnName]*keyTurn
	waiting   int
	strangers int // strangers' requests among those that wait
}

// turnName hashes a key and a request's content. So a request with the same key but other content
// delays no repeated request.
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

// takeTurn waits until the request may work on its Idempotency-Key in this process. The caller must
// end the turn. It returns nil if no turn is needed: the request has no key, or the last request
// with the turn was admitted. Error: ErrKeyInProgress if the client hangs up, if the time for the
// decision ends, or if too many requests wait.
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
		if before == nil || !s.turns.waitFor(client, deciding, before, r.plan.Class.IsStranger()) {
			return nil, ErrKeyInProgress
		}
		if before.admitted {
			return nil, nil
		}
	}
}

// takeOrJoin takes a free turn (own), or joins the requests that wait for the turn of another
// request (before). If too many wait, both are nil.
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

func (k *keyTurns) waitFor(client, deciding context.Context, turn *keyTurn, stranger bool) bool {
	ended := k.wait(client, deciding, turn.ended, stranger)
	k.mu.Lock()
	defer k.mu.Unlock()
	turn.waiting--
	return ended
}

// end lets the waiting requests continue. If this request was admitted, they need no turn. Later
// calls do nothing.
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

func (k *keyTurns) pause(client, deciding context.Context, d time.Duration, stranger bool) bool {
	over := make(chan struct{})
	defer time.AfterFunc(d, func() { close(over) }).Stop()
	return k.wait(client, deciding, over, stranger)
}

// wait returns false if the client hung up, if the time for the decision ended, or if too many
// requests wait.
func (k *keyTurns) wait(client, deciding context.Context, over <-chan struct{}, stranger bool) bool {
	if !k.count(stranger) {
		return false
	}
	defer k.uncount(stranger)
	select {
	case <-over:
		return true
	case <-client.Done():
	case <-deciding.Done():
	}
	return false
}

// count counts a request that waits. If too many wait, it counts nothing and returns false.
func (k *keyTurns) count(stranger bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting >= maxWaiting || stranger && k.strangers >= maxWaiting/2 {
		return false
	}
	k.waiting++
	if stranger {
		k.strangers++
	}
	return true
}

// uncount takes back what count counted.
func (k *keyTurns) uncount(stranger bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting--
	if stranger {
		k.strangers--
	}
}
