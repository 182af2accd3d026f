package store

import (
	"context"
	"time"
)

// Postgres keeps, of each hour that is over, what Stats and Domains count in it: a month of a busy service is more rows than
// anybody waits for. SQLite, which has few, counts anew each time.

// Counter is the part of the log that counts ahead.
type Counter interface {
	// CountHours counts up to limit hours that are over and of which nothing is under way any more, the newest first, and says how
	// many it counted. Hours that began longer than age ago are forgotten. Several replicas may call it at once: one counts.
	CountHours(ctx context.Context, age time.Duration, limit int) (int, error)
}
