// Package bench measures whole sends over HTTP, until the mail has arrived, against the floors of
// tools/floor, and writes docs/PERFORMANCE.md. All programs run as processes of their own on one
// Redis, one Postgres on a disk that it waits for, and one mail server; they take turns, so that
// whatever else the machine does meets all of them.
//
// It has tests only: `make bench`, `make bench-rows`, `make bench-retention` and `make bench-hour`
// run TestBench with the flags of main_test.go. Only make nightly runs these tests besides: a short
// run that says nothing about speed.
package bench
