package attempts

import (
	"sync"
	"time"
)

// lineInterval is the least time between two log lines about the same thing.
const lineInterval = time.Minute

// lines bounds the log lines that requests of strangers can cause. The zero value is ready; safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	kept map[string]pending
}

type pending struct {
	last  time.Time
	count int // since last
}

// add counts an event. If due, a line should be logged now, for count events.
func (l *lines) add(key string, now time.Time) (count int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[string]pending{}
	}
	p := l.kept[key]
	p.count++
	if since := now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < lineInterval {
		l.kept[key] = p
		return p.count, false
	}
	l.kept[key] = pending{last: now}
	return p.count, true
}
