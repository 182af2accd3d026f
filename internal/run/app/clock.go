package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/http/server"
)

// databaseClock returns the time of the database's clock. Every replica uses this one clock for the
// times in rows and in sealed cookies, both to write and to compare them. Between two readings of
// the database's clock, the machine's own clock measures the time that has passed. A databaseClock
// is safe for concurrent use.
type databaseClock struct {
	localNow func() time.Time // the time on this machine's clock
	read     func(context.Context) (time.Time, error)
	logger   *slog.Logger

	mu     sync.Mutex
	at     time.Time // the database's time when localNow returned readAt
	readAt time.Time
	off    bool // the last call of measure found the clock off; the first such call in a row logs it
}

const (
	clockReadEvery = 10 * time.Second
	// maxClockOffset is how far this machine's clock may differ from the database's clock without a
	// warning.
	maxClockOffset = 5 * time.Second
)

// Now returns the time on the database's clock. Call measure first.
func (c *databaseClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(c.localNow().Sub(c.readAt))
}

// measure reads the database's clock. Because the answer takes some time, the reading is uncertain
// by that time. If the present estimate is within this uncertainty, measure keeps the estimate, so
// that the time does not jump back and forth.
func (c *databaseClock) measure(ctx context.Context) error {
	askedAt := c.localNow()
	at, err := c.read(ctx)
	if err != nil {
		return err
	}
	answeredAt := c.localNow()
	took := answeredAt.Sub(askedAt)
	c.mu.Lock()
	if now := c.at.Add(answeredAt.Sub(c.readAt)); now.Before(at) || now.After(at.Add(took)) {
		c.at, c.readAt = at.Add(took/2), answeredAt
	}
	c.mu.Unlock()
	off := c.whyOff(ctx) != nil
	if off && !c.off {
		c.logger.Warn("clock off: let NTP run", "ahead_ms", c.localAhead().Milliseconds(), logs.SeeClock)
	}
	c.off = off
	return nil
}

func (c *databaseClock) localAhead() time.Duration { return c.localNow().Sub(c.Now()) }

// whyOff returns a reason if this machine's clock is off by more than maxClockOffset.
func (c *databaseClock) whyOff(context.Context) *server.HealthReason {
	if c.localAhead().Abs() <= maxClockOffset {
		return nil
	}
	return &server.HealthReason{Part: "clock", Word: "clock_off", Err: errors.New("clock off")}
}
