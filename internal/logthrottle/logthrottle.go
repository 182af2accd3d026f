// Package logthrottle bounds log lines that a storm of the same event can cause.
package logthrottle

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Throttle bounds the log lines that requests of strangers, or an outage, can cause: one line for
// each key every so often. Safe for concurrent use.
type Throttle struct {
	Every time.Duration

	mu   sync.Mutex
	kept map[string]pending
}

type pending struct {
	last  time.Time
	count int // since last
}

// Add counts an event. If due, the caller should log one line now, for n events since the last
// line; else none. Keys are a few fixed words, never texts of a request: they are kept.
func (s *Throttle) Add(key string, now time.Time) (n int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]pending{}
	}
	p := s.kept[key]
	p.count++
	if since := now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < s.Every {
		s.kept[key] = p
		return p.count, false
	}
	s.kept[key] = pending{last: now}
	return p.count, true
}

// takePending returns how many events were added since the last line, and resets their number. A
// key without any is forgotten.
func (s *Throttle) takePending(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.kept[key]
	if p.count == 0 {
		delete(s.kept, key)
	} else {
		s.kept[key] = pending{last: p.last}
	}
	return p.count
}

// LimitErrors returns a logger that writes the same ERROR, by its message, error and stack, at most
// once a second. A line that also stands for others since the one before has their number in
// "repeated".
func LimitErrors(l *slog.Logger) *slog.Logger {
	return slog.New(errorLimiter{l.Handler(), &Throttle{Every: math.MaxInt64}}) // until flushed
}

type errorLimiter struct {
	slog.Handler
	lines *Throttle // with the errors of the last second
}

// Handle implements slog.Handler.
func (h errorLimiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		return h.Handler.Handle(ctx, r)
	}
	key := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "stack" {
			key += "\n" + a.Value.String()
		}
		return true
	})
	if _, due := h.lines.Add(key, time.Now()); !due {
		return nil
	}
	time.AfterFunc(time.Second, func() { h.flush(context.WithoutCancel(ctx), key, r.Clone()) })
	return h.Handler.Handle(ctx, r)
}

// flush writes one line like r for those that were held back, and again after a second.
func (h errorLimiter) flush(ctx context.Context, key string, r slog.Record) {
	if held := h.lines.takePending(key); held > 0 {
		time.AfterFunc(time.Second, func() { h.flush(ctx, key, r) })
		again := r.Clone()
		again.Time = time.Now()
		again.AddAttrs(slog.Int("repeated", held))
		_ = h.Handler.Handle(ctx, again)
	}
}

// WithAttrs implements slog.Handler.
func (h errorLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return errorLimiter{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup implements slog.Handler.
func (h errorLimiter) WithGroup(name string) slog.Handler {
	return errorLimiter{h.Handler.WithGroup(name), h.lines}
}
