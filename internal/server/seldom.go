package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LogThrottle bounds the log lines that requests of strangers can cause: one line for each key every so often. Safe for concurrent use.
type LogThrottle struct {
	Every time.Duration

	mu   sync.Mutex
	kept map[string]pending
}

type pending struct {
	last  time.Time
	count int // since last
}

// Add counts an event. If due, the caller should log one line now, for n events since the last line; else none. Keys are a few fixed words,
// never texts of a request: they are kept forever.
func (s *LogThrottle) Add(key string, now time.Time) (n int, due bool) {
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

// LimitErrors returns a logger that writes the same ERROR, by its message, error and stack, at most once a second. A line that also stands
// for others since the one before has their number in "repeated".
func LimitErrors(l *slog.Logger) *slog.Logger {
	return slog.New(limitErrors{l.Handler(), &errorLines{kept: map[string]*errorLine{}}})
}

type limitErrors struct {
	slog.Handler
	lines *errorLines
}

type errorLines struct {
	mu   sync.Mutex
	kept map[string]*errorLine // those of the last second
}

type errorLine struct {
	more int // not written yet
	last func(more int)
}

// Handle implements slog.Handler.
func (h limitErrors) Handle(ctx context.Context, r slog.Record) error {
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
	if h.lines.add(key, func(more int) {
		again := r.Clone()
		again.AddAttrs(slog.Int("repeated", more))
		_ = h.Handler.Handle(context.WithoutCancel(ctx), again)
	}) {
		return h.Handler.Handle(ctx, r)
	}
	return nil
}

// add returns true if the line is to be written now; else write is called within a second, for this line or a later one.
func (l *errorLines) add(key string, write func(more int)) (now bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.kept[key]; line != nil {
		line.more, line.last = line.more+1, write
		return false
	}
	l.kept[key] = &errorLine{}
	time.AfterFunc(time.Second, func() { l.flush(key) })
	return true
}

func (l *errorLines) flush(key string) {
	l.mu.Lock()
	line := *l.kept[key]
	if line.more == 0 {
		delete(l.kept, key)
	} else {
		l.kept[key] = &errorLine{}
		time.AfterFunc(time.Second, func() { l.flush(key) })
	}
	l.mu.Unlock()
	if line.more > 0 {
		line.last(line.more)
	}
}

// WithAttrs implements slog.Handler.
func (h limitErrors) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitErrors{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup implements slog.Handler.
func (h limitErrors) WithGroup(name string) slog.Handler {
	return limitErrors{h.Handler.WithGroup(name), h.lines}
}
