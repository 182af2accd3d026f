package store

import "time"

// LimiterEvent is an event that no other row tells, in a bucket of a limiter in process. Instants
// are on the database's clock.
type LimiterEvent struct {
	Bucket   []byte    // its name, encrypted; equal names are equal here
	ID       string    // at most 64 bytes; empty: all events of the bucket, which a reset ended
	At       time.Time // not of a refunded event
	Until    time.Time // it counts before this instant
	Refunded bool      // it counts no longer
	Seq      int64     // see sqldb.DB.LimiterEvents
}
