package logs

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Throttle limits the number of log lines that an outage or requests from strangers can cause. For
// each key, Throttle allows at most one line in each period Every. Throttle is safe for concurrent
// use.
type Throttle struct {
	Every time.Duration // least time between two lines of a key; 0: a minute

	mu       sync.Mutex
	unlogged map[string]unloggedEvents
}

// unloggedEvents counts the events of a key since the key's last log line.
type unloggedEvents struct {
	last  time.Time
	count int // events since last
}

// Add counts an event. If due is true, the caller should log one line now, for the n events since
// the key's last line. If due is false, the caller should log no line. Use only a few fixed keys
// and never a text from a request, because Throttle keeps all keys in memory.
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

// takePending returns the number of a key's events since the key's last line, and sets that number
// to 0. If the number is already 0, takePending deletes the key.
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

// LimitErrors returns a logger that writes the same ERROR line at most once a second. Two lines are
// the same if message, error and stack are equal. If lines were suppressed, the next line has the
// number of suppressed lines in the attribute "repeated".
func LimitErrors(l *slog.Logger) *slog.Logger {
	return slog.New(errorLimiter{l.Handler(), &Throttle{Every: math.MaxInt64}}) // only takePending makes a key due again
}

// errorLimiter is the handler of LimitErrors.
type errorLimiter struct {
	slog.Handler
	lines *Throttle // the keys are the errors of the last second
}

// Handle implements slog.Handler.
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

// flush writes one line like r if lines of the key were suppressed. After that line, flush runs
// again one second later. If the handler panics in flush, the process ends: no code could report
// the panic. That is unlikely, because the handler has already written the same line.
func (e errorLimiter) flush(ctx context.Context, key string, r slog.Record) {
	if held := e.lines.takePending(key); held > 0 {
		time.AfterFunc(time.Second, func() { e.flush(ctx, key, r) })
		repeated := r.Clone()
		repeated.Time = time.Now()
		repeated.AddAttrs(slog.Int("repeated", held))
		_ = e.Handler.Handle(ctx, repeated)
	}
}

// WithAttrs implements slog.Handler.
func (e errorLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return errorLimiter{e.Handler.WithAttrs(attrs), e.lines}
}

// WithGroup implements slog.Handler.
func (e errorLimiter) WithGroup(name string) slog.Handler {
	return errorLimiter{e.Handler.WithGroup(name), e.lines}
}
