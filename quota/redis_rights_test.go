package quota

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/servertest"
)

// documented returns the rights in the ACL rule of a file, without those of the keys.
func documented(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	rule := regexp.MustCompile(`~sendcode\* -@all ([^\n'"]*)`).FindStringSubmatch(string(text))
	if rule == nil {
		t.Fatalf("%s has no rule", file)
	}
	return strings.Fields(rule[1])
}

// The documented rights, which are those of compose.yaml, are enough for every call, and the probe finds each missing one.
func TestTheDocumentedRightsAreEnough(t *testing.T) {
	rights := documented(t, "../docs/operations.md")
	sameList(t, "those of compose.yaml", documented(t, "../deploy/redis/start.sh"), rights)
	server := servertest.Redis(t, "--appendonly", "yes")
	limiter := limiterWith(t, server, rights)
	must(t, limiter.Ping(t.Context()))
	if w := limiter.Warnings(t.Context()); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	mustAll(t, everyCall(t, limiter))
	for _, right := range rights {
		err := limiterWith(t, server, slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })).Ping(t.Context())
		if slices.Contains([]string{"+ping", "+config|get", "+info"}, right) {
			must(t, err)
		} else if !errors.Is(err, ErrNotPermitted) || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), right[1:]) {
			t.Errorf("without %s: %v", right, err)
		}
	}
}

// documentedBeside returns the rights that docs/operations.md adds for a case.
func documentedBeside(t *testing.T, what string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	must(t, err)
	rights := regexp.MustCompile(regexp.QuoteMeta(what) + " needs `([^`]*)`").FindStringSubmatch(string(text))
	if rights == nil {
		t.Fatalf("docs/operations.md says nothing of %s", what)
	}
	return strings.Fields(rights[1])
}

func TestPingFindsAUserWhoMayNotWrite(t *testing.T) {
	server := servertest.Redis(t)
	for name, rights := range map[string][]string{
		"reads alone":    {"~*", "+@all", "-@write"},
		"keys of others": {"~others*", "+@all"},
		"keys read-only": {"%R~*", "+@all"},
		"no scripts":     {"~*", "+@all", "-@scripting"},
	} {
		limiter := userWith(t, server, rights)
		if err := limiter.Ping(t.Context()); !errors.Is(err, ErrNotPermitted) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := limiter.Take(t.Context(), request("one", defaults...)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: a take: %v", name, err)
		}
	}
}

// The probe checks every command of the scripts.
func TestTheProbeKnowsEveryCommand(t *testing.T) {
	asked := commandsIn(`\{'([A-Z]+)'`, probeScript)
	asked = append(asked, "INFO") // of which no decision depends
	slices.Sort(asked)
	sameList(t, "commands", slices.DeleteFunc(asked, isEval),
		commandsIn(`call\('([A-Z]+)'`, clockScript, commonScript, takeScript, refundScript, recordScript, resetScript))
}

func isEval(command string) bool { return strings.HasPrefix(command, "EVAL") }

func commandsIn(pattern string, scripts ...string) (names []string) {
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(strings.Join(scripts, "\n"), -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func mustAll(t *testing.T, calls map[string]error) {
	t.Helper()
	for call, err := range calls {
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func limiterWith(t *testing.T, server *servertest.RedisServer, rights []string) *Redis {
	t.Helper()
	return userWith(t, server, append([]string{"~sendcode*", "-@all"}, rights...))
}

func userWith(t *testing.T, server *servertest.RedisServer, rights []string) *Redis {
	t.Helper()
	setUser(t, server, rights)
	return NewRedis(newClient(t, strings.Replace(server.URL(), "redis://", "redis://plain:secret@", 1)), "sendcode")
}

func setUser(t *testing.T, server *servertest.RedisServer, rights []string) {
	t.Helper()
	must(t, newClient(t, server.URL()).Do(t.Context(), aclUser("plain", rights)...).Err())
}

// aclUser returns the command that gives a user these rights alone.
func aclUser(name string, rights []string) []any {
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	return args
}

// everyCall runs every command of every script: on a bucket of more events than are read at once, full, refunded, recorded, reset.
func everyCall(t *testing.T, r *Redis) map[string]error {
	t.Helper()
	ctx := t.Context()
	errs := map[string]error{}
	many := sliding(Recipient, 30, time.Hour)
	for i := range 31 {
		_, err := r.Take(ctx, request("id"+string(rune('a'+i)), many))
		errs["take"] = errors.Join(errs["take"], err)
	}
	_, errs["peek"] = r.Peek(ctx, request("", many))
	errs["refund"] = r.Refund(ctx, "ida", ann())
	errs["record"] = r.Record(ctx, ann(), time.Minute, []Event{{"older", time.Now()}})
	errs["restore"] = r.Restore(ctx, History{Bucket: ann(), Keep: time.Hour, Epoch: "7", Events: []Event{{"another", time.Now()}}})
	errs["reset"] = r.Reset(ctx, ann())
	return errs
}
