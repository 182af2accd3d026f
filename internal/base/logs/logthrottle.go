package logs

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Throttle bounds the log lines that requests of strangers, or an outage, can cause: for each key,
// at most one line in Every. Safe for concurrent use.
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

// Add counts an event. due: the caller should now log one line, for the n events since the last
// line; otherwise it should log none. Use only a few fixed keys, and never texts of a request,
// since keys stay in memory.
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

// takePending returns the number of a key's events since the last line, and resets it. If the
// number is 0, the key is deleted.
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

// LimitErrors returns a logger that writes the same ERROR at most once a second. Lines with equal
// message, error and stack are the same. If lines were suppressed, the next line has their number
// in "repeated".
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

// flush writes one line like r for the suppressed lines. If there were any, it runs again after a
// second. If the handler panics, the process ends: nothing could report the panic, and the handler
// has written the same line before.
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
