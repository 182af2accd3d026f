// Package bench is the load generator. It requests codes over HTTP from this build, older commits,
// the fair floor (tools/floor) and otpgateway, in turns, and reports what each request costs. The
// programs run as processes of their own on one Redis, one Postgres that waits for its disk, and
// one mail server, all on this machine.
//
// It has tests only. `make bench` runs TestBench with the flags of bench_test.go and writes
// docs/PERFORMANCE.md and RESULTS.md. `make nightly` runs it in two ways. Its part `make goals`
// runs five rounds of 64 callers and fails if a goal was missed. Its run of all tests includes
// TestBench with 8 callers, a second for each workload; that says nothing about speed. TestBench
// needs the machine alone. After a measurement, `go test ./tools/bench -run TestGrowth -update`
// writes the tables of growth in docs/operations.md.
package bench
