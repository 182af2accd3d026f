package store

import "time"

// LimiterEvent is an event in a bucket of an in-process limiter. The store keeps the event because
// no other row records it. At and Until are times on the database's clock.
type LimiterEvent struct {
	Bucket   []byte    // the bucket's name, encrypted; equal names have equal ciphertexts
	ID       string    // at most 64 bytes; empty: a reset ended all events of the bucket
	At       time.Time // without meaning for a refunded event
	Until    time.Time // the event counts before this instant
	Refunded bool      // the event counts no longer
	Seq      int64     // see sqldb.DB.LimiterEvents
	Own      bool      // the reader wrote it
}
