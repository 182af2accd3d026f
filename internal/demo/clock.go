package demo

import (
	"sync"
	"time"
)

// simulatedClock is the time of the week that is played. It only goes forward. Safe for concurrent
// use.
type simulatedClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewSimulatedClock returns a clock that shows an instant.
func NewSimulatedClock(at time.Time) *simulatedClock { return &simulatedClock{now: at} }

// Now returns the time that the clock shows.
func (c *simulatedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance moves the clock forward.
func (c *simulatedClock) advance(d time.Duration) { c.advanceTo(c.Now().Add(d)) }

// advanceTo moves the clock forward to an instant. If the clock already shows a later one, it does
// nothing.
func (c *simulatedClock) advanceTo(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.now) {
		c.now = at
	}
}
