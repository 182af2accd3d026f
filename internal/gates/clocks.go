package gates

import (
	"sync"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// clockOffsets measures by how much the clocks of the limiter and of the database are ahead of this
// process's monotonic clock, and so of each other. Each answer that contains an instant is a
// reading. Safe for concurrent use.
type clockOffsets struct {
	now   func() time.Time
	start time.Time

	mu          sync.Mutex
	limiter, db clockOffset
}

// clockOffset is the estimate of how far a clock is ahead of this process's clock.
type clockOffset struct {
	ahead time.Duration
	read  bool // the clock was read
}

func newClockOffsets(now func() time.Time) *clockOffsets {
	return &clockOffsets{now: now, start: now()}
}

// noteLimiter notes an instant of the limiter's clock, from a call that began at asked and has just
// ended.
func (c *clockOffsets) noteLimiter(at, asked time.Time) { c.noteReading(&c.limiter, at, asked) }

// noteDatabase notes an instant of the database's clock, from a call that began at asked and has
// just ended.
func (c *clockOffsets) noteDatabase(at, asked time.Time) { c.noteReading(&c.db, at, asked) }

// noteReading moves an estimate into the range that the reading allows, and no further, so that a
// slow call does not make the estimate worse. The first estimate is the middle of the range.
func (c *clockOffsets) noteReading(x *clockOffset, at, asked time.Time) {
	most := at.Sub(c.start) - asked.Sub(c.start)
	least := at.Sub(c.start) - c.now().Sub(c.start)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.read {
		x.ahead, x.read = (least+most)/2, true
	}
	x.ahead = max(least, min(most, x.ahead))
}

// limiterAhead returns by how much the limiter's clock is ahead of the database's clock; 0 until
// both were read.
func (c *clockOffsets) limiterAhead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limiter.read || !c.db.read {
		return 0
	}
	return c.limiter.ahead - c.db.ahead
}

// databaseNow returns the time on the database's clock. Call noteDatabase before.
func (c *clockOffsets) databaseNow() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.Add(c.now().Sub(c.start) + c.db.ahead)
}

// wasSetSince reports whether one of the clocks was set since limiterAhead returned by.
func (c *clockOffsets) wasSetSince(by time.Duration) bool {
	return (c.limiterAhead() - by).Abs() > store.MaxClockSkew/2
}

// OnDatabaseClock moves a decision's instant to the database's clock if the limiter's clock is
// ahead or behind by more than MaxClockSkew. So the instants in an answer differ by at most
// MaxClockSkew from those of one clock.
func (g *Gates) OnDatabaseClock(d quota.Decision) quota.Decision {
	if apart := g.ClocksApart(); d.Clock != store.DatabaseClock && apart.Abs() > store.MaxClockSkew {
		d.At, d.Clock = d.At.Add(-apart), store.DatabaseClock
	}
	return d
}

// ClocksApart returns by how much the limiter's clock is ahead of the database's, as last measured;
// 0 if not measured yet.
func (g *Gates) ClocksApart() time.Duration { return g.clocks.limiterAhead() }
