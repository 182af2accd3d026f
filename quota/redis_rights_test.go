package quota

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// limiterRights finds the ACL rule of the limiter's user in a file. besideOnCluster and ofSentinel
// find the rights that operations.md adds.
const (
	operations      = "../docs/operations.md"
	limiterRights   = `(~sendcode\* -@all [^\n'"]*)`
	besideOnCluster = "a Cluster: `([^`]*)`"
	ofSentinel      = "\\(`sentinel_username`\\): `([^`]*)`"
)

// documentedRights returns the rights that the pattern finds in a file.
func documentedRights(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	rights := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	if rights == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	return strings.Fields(rights[1])
}

// The documented rights, which equal those in deploy/redis/start.sh, suffice for every call. If a
// right that decisions need is missing, the probe names it.
func TestTheDocumentedRightsAreEnough(t *testing.T) {
	rights := documentedRights(t, operations, limiterRights)
	const script = "../deploy/redis/start.sh"
	sameList(t, script, documentedRights(t, script, limiterRights), rights)
	server := servertest.Redis(t, "--appendonly", "yes")
	limiter := limiterOf(t, server, rights)
	sameList(t, "warnings", limiter.Warnings(t.Context()), nil)
	allAre(t, nil, calls(t, limiter, 31))
	keys, bytes, err := limiter.Size(t.Context())
	must(t, err)
	if keys < 1 || bytes < 100_000 {
		t.Errorf("Redis holds %d keys in %d bytes", keys, bytes)
	}
	lesser := slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == "+dbsize" })
	if _, _, err := limiterOf(t, server, lesser).Size(t.Context()); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("without +dbsize: %v", err)
	}
	for _, right := range rights[2:] {
		err := limiterOf(t, server, slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })).Ping(t.Context())
		if slices.Contains([]string{"+ping", "+config|get", "+dbsize", "+info"}, right) {
			must(t, err)
		} else if !errors.Is(err, ErrNotPermitted) || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), right[1:]) {
			t.Errorf("without %s: %v", right, err)
		}
	}
}

func TestPingFindsAUserWhoMayNotWrite(t *testing.T) {
	server := servertest.Redis(t)
	for name, rights := range map[string][]string{
		"reads alone":    {"~*", "+@all", "-@write"},
		"keys of others": {"~others*", "+@all"},
		"keys read-only": {"%R~*", "+@all"},
		"no scripts":     {"~*", "+@all", "-@scripting"},
	} {
		limiter := limiterOf(t, server, rights)
		if err := limiter.Ping(t.Context()); !errors.Is(err, ErrNotPermitted) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := limiter.Take(t.Context(), request("one", defaults...)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: a take: %v", name, err)
		}
	}
}

// The probe checks every command of the scripts.
func TestPingProbesEveryCommand(t *testing.T) {
	asked := commandsIn(`\{'([A-Z]+)'`, probeScript)
	asked = slices.DeleteFunc(asked, func(c string) bool { return strings.HasPrefix(c, "EVAL") })
	slices.Sort(asked)
	sameList(t, "commands", asked,
		commandsIn(`call\('([A-Z]+)'`, clockScript, commonScript, takeScript, refundScript, recordScript, resetScript))
}

func commandsIn(pattern string, scripts ...string) (names []string) {
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(strings.Join(scripts, "\n"), -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// limiterOf returns a limiter whose user has only these rights.
func limiterOf(t *testing.T, server *servertest.RedisServer, rights []string) *Redis {
	t.Helper()
	url := server.URL() + servertest.LongTimeouts
	setUser(t, newClient(t, url), "plain", rights)
	return withLongBudget(NewRedis(newClient(t, asPlain(url)), "sendcode"))
}

// asPlain adds the user plain to a URL.
func asPlain(url string) string { return strings.Replace(url, "://", "://plain:secret@", 1) }

// setUser gives a user only these rights.
func setUser(t *testing.T, server interface {
	Process(context.Context, redis.Cmder) error
}, name string, rights []string,
) {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	must(t, server.Process(t.Context(), redis.NewCmd(t.Context(), args...)))
}
