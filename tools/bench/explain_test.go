package bench

import (
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
		{2, "sealing the recipient", `keys.\(\*Ring\).Seal$`},
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
func (b *rig) explain() string {
	profile := b.path("profile")
	service := b.startService(serviceSettings{profile: profile})
	b.sends(service, b.unitCallers(), 2*b.length)
	b.end(service)
	program, err := os.Executable()
	b.must(err)
	top, err := exec.CommandContext(b.Context(), "go", "tool", "pprof", "-top", "-cum", "-nodecount=2000", "-nodefraction=0", program,
		profile).Output()
	b.must(err)
	g := newGrid("part", "share")
	for _, s := range stages() {
		if share := cumulative(string(top), s.function); share != "" {
			g.add(strings.Repeat("· ", s.depth)+s.name, share)
		}
	}
	if len(g.rows) == 1 { // a short run on a busy machine
		g.add("too few samples", "–")
	}
	return "64 callers; each part includes what it calls.\n\n" + g.String()
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
