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

// NewClock starts a clock.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now is its time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves it forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
}

// AdvanceTo moves it to an instant, unless it is later there already.
func (c *Clock) AdvanceTo(at time.Time) { c.Advance(at.Sub(c.Now())) }
