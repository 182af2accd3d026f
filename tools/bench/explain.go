package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// stage is a part of a send, by the function that it begins with.
type stage struct {
	depth          int
	name, function string
}

func stages() []stage {
	return []stage{
		{0, "HTTP, JSON, access log and all below", `net/http.\(\*conn\).serve$`},
		{1, "access log", `log/slog.\(\*Logger\).log(Attrs)?$`},
		{1, "the use case", `verification.\(\*Service\).Send$`},
		{2, "first gate: Redis", `quota.\(\*Redis\).Take$`},
		{2, "sealing the recipient", `keyring.\(\*Ring\).Seal$`},
		{0, "second gate: Postgres, in batches", `postgres.\(\*DB\).decideBatch$`},
		{0, "outcomes: Postgres, in batches", `postgres.\(\*DB\).finish$`},
		{0, "outbox: compose, deliver, finish", `outbox.\(\*Outbox\).attempt$`},
		{1, "templates", `message.\(\*Renderer\).Render$`},
		{1, "MIME", `delivery.\(\*Layouts\).Render$`},
		{1, "SMTP", `smtp.\(\*session\).deliver$`},
		{0, "garbage collector", `runtime.gcBgMarkWorker$`},
		{0, "system calls, in all of these", `internal/runtime/syscall.*Syscall6$`},
	}
}

// explain runs the service once more, profiled, and says where its processor time went.
func (b *rig) explain(ctx context.Context, p plan) (string, error) {
	profile := b.path("profile")
	service, err := b.startService(ctx, serviceSettings{profile: profile})
	if err != nil {
		return "", err
	}
	if _, err := b.sends(ctx, service, unitCallers(p), 2*p.length); err != nil {
		return "", err
	}
	if err := service.process.close(); err != nil {
		return "", err
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=2000", "-nodefraction=0", program,
		profile).Output()
	if err != nil {
		return "", fmt.Errorf("reading the profile: %w", err)
	}
	g := newGrid("part", "share")
	for _, s := range stages() {
		if share := cumulative(string(top), s.function); share != "" {
			g.add(strings.Repeat("· ", s.depth)+s.name, share)
		}
	}
	if len(g.rows) == 1 { // a short run on a busy machine
		g.add("too few samples", "–")
	}
	return "64 callers; each part includes what it calls.\n\n" + g.String(), nil
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
