package listing

import (
	"time"
)

// Stamp writes a time as RFC 3339 in UTC, to the millisecond; null for the zero time.
func Stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return Text(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Text is null for nothing.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
