package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// stages are the parts of a send, by the functions that they begin with.
var stages = []struct{ name, function string }{
	{"HTTP, JSON, access log and all below", `net/http.\(\*conn\).serve$`},
	{"  access log", `log/slog.\(\*Logger\).log$`},
	{"  the use case", `verification.\(\*Service\).Send$`},
	{"    first gate: Redis", `quota.\(\*Redis\).Take$`},
	{"    sealing the recipient", `keyring.\(\*Ring\).Seal$`},
	{"second gate: Postgres, in batches", `audit.\(\*Postgres\).decide$`},
	{"outcomes: Postgres, in batches", `audit.\(\*Postgres\).finish$`},
	{"outbox: compose, deliver, finish", `verification.\(\*outbox\).attempt$`},
	{"  templates", `message.\(\*Renderer\).Render$`},
	{"  MIME", `delivery.render$`},
	{"  SMTP", `delivery.\(\*session\).deliver$`},
	{"garbage collector", `runtime.gcBgMarkWorker$`},
	{"system calls, in all of these", `internal/runtime/syscall.*Syscall6$`},
}

// explain runs the service once more, profiled, and says where its processor time went.
func (b *rig) explain(ctx context.Context, out io.Writer, p plan) error {
	profile := filepath.Join(b.dir, "profile")
	service, err := b.startService(ctx, profile)
	if err != nil {
		return err
	}
	callers := slices.Max(p.callers)
	if slices.Contains(p.callers, 64) {
		callers = 64
	}
	r, err := b.measure(ctx, service, callers, 2*p.length)
	if err != nil {
		return err
	}
	if err := service.process.Close(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=2000", "-nodefraction=0", self, profile).Output()
	if err != nil {
		return fmt.Errorf("reading the profile: %w", err)
	}
	fmt.Fprintf(out, "\nWhere the service's processor time goes, %d callers, %.0f sends/s (profiled):\n\n", callers, r.rate())
	for _, s := range stages {
		if share := cumulative(string(top), s.function); share != "" {
			fmt.Fprintf(out, "  %7s  %s\n", share, s.name)
		}
	}
	return nil
}

// cumulative finds a function's share, itself and what it calls, in what pprof says.
func cumulative(top, function string) string {
	pattern := regexp.MustCompile(function)
	for line := range strings.Lines(top) {
		fields := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " (inline)"))
		if len(fields) >= 6 && pattern.MatchString(strings.Join(fields[5:], " ")) {
			return fields[4]
		}
	}
	return ""
}
