package app

import (
	"testing"
	"time"

	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/traces"
	"sendcode/quota"
)

// If the limiter is in this process, package gates makes no second one, even if the limiter is
// traced.
func TestTraceCoreKeepsTheLimiterInProcess(t *testing.T) {
	a := &App{traces: &traces.Traces{}}
	if !gates.InProcess(a.traceCore(core.Dependencies{Limiter: quota.NewMemory(time.Now)}).Limiter) {
		t.Error("a traced quota.Memory is not taken for one")
	}
	if gates.InProcess(a.traceCore(core.Dependencies{Limiter: &quota.Redis{}}).Limiter) {
		t.Error("a traced quota.Redis is taken for a limiter in this process")
	}
}
