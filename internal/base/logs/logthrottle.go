package logs

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Throttle limits the log lines that an outage or requests from strangers can cause: each key gets
// at most one line per Every. Safe for concurrent use.
type Throttle struct {
	Every time.Duration // least time between two lines of a key; 0 means a minute

	mu       sync.Mutex
	unlogged map[string]unloggedEvents
}

type unloggedEvents struct {
	last  time.Time
	count int // events since last
}

// Add counts an event. If due is true, the caller must log one line now, for the n events since the
// key's last line. Use only a few fixed keys and never a text from a request, because Throttle
// keeps all keys in memory.
func (t *Throttle) Add(key string, now time.Time) (n int, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unlogged == nil {
		t.unlogged = map[string]unloggedEvents{}
	}
	p := t.unlogged[key]
	p.count++
	if since := now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < cmp.Or(t.Every, time.Minute) {
		t.unlogged[key] = p
		return p.count, false
	}
	t.unlogged[key] = unloggedEvents{last: now}
	return p.count, true
}

// takePending returns how many events came since the key's last line, and resets the number. It
// deletes a key without events.
func (t *Throttle) takePending(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.unlogged[key]
	if p.count == 0 {
		delete(t.unlogged, key)
	} else {
		t.unlogged[key] = unloggedEvents{last: p.last}
	}
	return p.count
}

// LimitErrors returns a logger that writes the same ERROR line at most once a second. Lines are the
// same if message, error and stack are equal. The next line has the number of suppressed ones in
// the attribute "repeated".
func LimitErrors(l *slog.Logger) *slog.Logger {
	return slog.New(errorLimiter{l.Handler(), &Throttle{Every: math.MaxInt64}}) // only takePending makes a key due again
}

type errorLimiter struct {
	slog.Handler
	lines *Throttle // the keys are the errors of the last second
}

func (e errorLimiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		return e.Handler.Handle(ctx, r)
	}
	key := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "stack" {
			key += "\n" + a.Value.String()
		}
		return true
	})
	if _, due := e.lines.Add(key, time.Now()); !due {
		return nil
	}
	time.AfterFunc(time.Second, func() { e.flush(context.WithoutCancel(ctx), key, r.Clone()) })
	return e.Handler.Handle(ctx, r)
}

// flush writes one line like r if lines of the key were suppressed, and then runs again one second
// later. If the handler panics here, the process ends, because no code could report the panic. That
// is unlikely: the handler has already written the same line.
func (e errorLimiter) flush(ctx context.Context, key string, r slog.Record) {
	if pending := e.lines.takePending(key); pending > 0 {
		time.AfterFunc(time.Second, func() { e.flush(ctx, key, r) })
		repeated := r.Clone()
		repeated.Time = time.Now()
		repeated.AddAttrs(slog.Int("repeated", pending))
		_ = e.Handler.Handle(ctx, repeated)
	}
}

func (e errorLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return errorLimiter{e.Handler.WithAttrs(attrs), e.lines}
}

func (e errorLimiter) WithGroup(name string) slog.Handler {
	return errorLimiter{e.Handler.WithGroup(name), e.lines}
}
