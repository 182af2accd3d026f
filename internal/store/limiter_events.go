package store

import "time"

// LimiterEvent is an event in a bucket of an in-process limiter that no other row records. Times
// are on the database's clock.
type LimiterEvent struct {
	Bucket   []byte    // its encrypted name; equal names have equal ciphertexts
	ID       string    // at most 64 bytes; empty: a reset of the bucket
	At       time.Time // without meaning if Refunded
	Until    time.Time // it counts before this
	Refunded bool      // it no longer counts
	Seq      int64     // see sqldb.DB.LimiterEvents
	Own      bool      // the reader wrote it
}
