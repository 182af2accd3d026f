package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"sync"
	"time"
)

// once runs each rendered form once: a double click posts it twice, and the browser drops the first answer with its cookie. Without this
// the second post would be refused, and its cookie would lack the verification that the first one opened. It works within this process; for
// sends, the Idempotency-Key works across replicas too.
type once struct {
	mu   sync.Mutex
	acts map[string]*act // by key
}

type act struct {
	at   time.Time
	done chan struct{}
	session
}

// sameClick is how long an equal post counts as the same click; a later one acts again.
const (
	sameClick = 10 * time.Second
	maxActs   = 10_000
)

// minIntent is the length of the name of a rendering (see draw). A shorter one was not made by the page, and could be guessed.
const minIntent = 26

// actKey hashes a form's name and what was typed, since typed text must not be kept; "" if another browser could post the same form.
func actKey(intent string, typed ...string) string {
	if len(intent) < minIntent {
		return ""
	}
	h := sha256.New()
	for _, s := range append([]string{intent}, typed...) {
		_, _ = io.WriteString(h, s+"\x00") // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// do runs f for the first of several posts with this key and returns its session to all; without a key, for each. It fails only if ctx ends
// while it waits for the first.
func (o *once) do(ctx context.Context, key string, now time.Time, f func() session) (session, error) {
	if key == "" {
		return f(), nil
	}
	first, mine := o.claim(key, now)
	if mine {
		defer close(first.done)
		first.session = f()
		return first.session, nil
	}
	select {
	case <-first.done:
		return first.session, nil
	case <-ctx.Done():
		return session{}, ctx.Err()
	}
}

// claim returns the act with this key, and true if the caller is the first and must run it. If there are too many acts, it deletes old ones.
func (o *once) claim(key string, now time.Time) (*act, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a, ok := o.acts[key]; ok && now.Sub(a.at) < sameClick {
		return a, false
	}
	a := &act{at: now, done: make(chan struct{})}
	if len(o.acts) >= maxActs {
		maps.DeleteFunc(o.acts, func(_ string, a *act) bool { return now.Sub(a.at) >= sameClick })
	}
	if len(o.acts) < maxActs {
		o.acts[key] = a
	}
	return a, true
}
