package server

import (
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
