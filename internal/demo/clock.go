package demo

import (
	"sync"
	"time"
)

// Clock is the time of the week that is played. It only goes forward. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows an instant.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward. With a negative duration it does nothing.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
}

// AdvanceTo moves the clock forward to an instant. If the clock already shows a later one, it does nothing.
func (c *Clock) AdvanceTo(at time.Time) { c.Advance(at.Sub(c.Now())) }
