package app

import (
	"testing"
	"time"

	"sendcode/internal/config"
)

// Beside Postgres no two processes without Redis share a clock, so that neither compares its
// instants with the other's. Beside SQLite there is one process, which keeps its clock over a
// restart.
func TestClocksOfLimitersInProcess(t *testing.T) {
	clock := func(cfg config.Config) string {
		a := &App{cfg: cfg, now: time.Now}
		if err := a.openLimiter(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a.clock
	}
	beside := config.Config{DatabaseURL: "postgres://h/d"}
	if one, another := clock(beside), clock(beside); one == another {
		t.Errorf("two processes beside Postgres have the clock %q", one)
	}
	if one, another := clock(config.Config{}), clock(config.Config{}); one != another || one == clock(beside) {
		t.Errorf("a process beside SQLite has the clock %q, and %q after a restart", one, another)
	}
}
