package demo

import (
	"sync"
	"time"
)

// clock is the time of the week that is played. It only goes forward. Safe for concurrent use.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows an instant.
func NewClock(at time.Time) *clock { return &clock{now: at} }

// Now returns the time that the clock shows.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance moves the clock forward.
func (c *clock) advance(d time.Duration) { c.advanceTo(c.Now().Add(d)) }

// advanceTo moves the clock forward to an instant. If the clock already shows a later one, it does
// nothing.
func (c *clock) advanceTo(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.now) {
		c.now = at
	}
}
