package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"sendcode/tools/bench/report"
)

// measureLimiter runs the benchmarks of package quota, which have their own rivals and rounds.
func (b *rig) measureLimiter(ctx context.Context, _ plan, r *report.Results) error {
	said, err := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=Rivals|TakeBy", "-timeout=10m", "sendcode/quota").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	if r.Limiter = report.ParseRivals(string(said)); len(r.Limiter) == 0 {
		return errors.New("the benchmark of the limiter printed no table")
	}
	return nil
}
