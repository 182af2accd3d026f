package store

import "time"

// LimiterEvent is an event in a bucket of an in-process limiter that no other row records. Times
// are on the database's clock.
type LimiterEvent struct {
	Bucket   []byte    // its encrypted name; equal names have equal ciphertexts
	ID       string    // at most 64 bytes; empty: a reset of the bucket
	At       time.Time // meaningless if Refunded
	Until    time.Time // the event counts before this time
	Refunded bool      // the event no longer counts
	Seq      int64     // see sqldb.DB.LimiterEvents
	Own      bool      // the reader wrote it
}
