package server

import (
	"sync"
	"time"
)

// Seldom bounds the log lines that requests of strangers can cause: one in an interval for each key. Safe for concurrent use.
type Seldom struct {
	Every time.Duration

	mu   sync.Mutex
	kept map[string]pending
}

type pending struct {
	last  time.Time
	count int // since last
}

// Add counts an event. If due, the caller should log one line for n events now. Keys are a few fixed words.
func (s *Seldom) Add(key string, now time.Time) (n int, due bool) {
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
