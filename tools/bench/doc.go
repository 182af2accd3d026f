// Package bench is the load generator: it asks this build, older commits, the fair floor
// (tools/floor) and otpgateway for codes over HTTP, all in turns, and says what each request costs.
// The programs run as processes of their own on one Redis, one Postgres on a disk that it waits
// for, and one mail server, all on this machine.
//
// It has tests only. `make bench` runs TestBench with the flags of bench_test.go and writes
// docs/PERFORMANCE.md and RESULTS.md. Only make nightly runs it besides: its part `make goals` for
// five rounds of 64 callers that fail if a goal was missed, and among all tests with 8 callers for
// a second for each workload, which says nothing about speed. It needs the machine alone.
package bench
