package servertest

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/servertest/locate"
)

// Redis starts a private Redis for one test, as [StartRedis] does, and closes
// it afterwards. A later Start that fails also fails the test.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	s, err := StartRedis(t.Context(), args...)
	need(t, err)
	s.reporter = func(err error) { t.Error(err) }
	t.Cleanup(func() { closed(t, s.Close()) })
	return s
}

// Cluster starts a private Redis Cluster for one test, as [StartRedisCluster]
// does, and closes it afterwards. A later Start of a node that fails also fails the test.
func Cluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	c, err := StartRedisCluster(t.Context(), args...)
	need(t, err)
	for _, node := range c.Nodes {
		node.reporter = func(err error) { t.Error(err) }
	}
	t.Cleanup(func() { closed(t, c.Close()) })
	return c
}

// RedisWithClock is Redis with a wall clock that the test can set.
func RedisWithClock(t testing.TB, args ...string) (*RedisServer, *Clock) {
	t.Helper()
	s, clock, err := StartRedisWithClock(t.Context(), args...)
	if errors.Is(err, errNoShim) {
		t.Skip(err)
	}
	need(t, err)
	s.reporter = func(err error) { t.Error(err) }
	t.Cleanup(func() { closed(t, s.Close()) })
	return s, clock
}

// Postgres starts a private Postgres for one test, as [StartPostgres] does, and
// closes it afterwards. A later Start that fails also fails the test.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	s, err := StartPostgres(t.Context())
	need(t, err)
	s.reporter = func(err error) { t.Error(err) }
	t.Cleanup(func() { closed(t, s.Close()) })
	return s
}

// NewDatabase makes a further empty database on the same server and returns its URL. On a shared server it goes with the test.
func (s *PostgresServer) NewDatabase(t testing.TB) string {
	t.Helper()
	url, err := s.CreateDatabase(t.Context())
	need(t, err)
	s.dropAfter(t, url)
	return url
}

// Copy makes a further database with all that is in that of url, which must have no connection, and returns its URL. On a shared
// server it goes with the test.
func (s *PostgresServer) Copy(t testing.TB, url string) string {
	t.Helper()
	copied, err := s.CopyDatabase(t.Context(), url)
	need(t, err)
	s.dropAfter(t, copied)
	return copied
}

func (s *PostgresServer) dropAfter(t testing.TB, url string) {
	t.Helper()
	if s.shared {
		t.Cleanup(func() { closed(t, s.dropDatabase(context.Background(), url)) })
	}
}

// Dump is everything in the given databases (none named: that of URL), as SQL.
// Note that pg_dump writes bytea as hex.
func (s *PostgresServer) Dump(t testing.TB, urls ...string) string {
	t.Helper()
	if len(urls) == 0 {
		urls = []string{s.URL()}
	}
	var all strings.Builder
	for _, url := range urls {
		text, err := s.DumpDatabase(t.Context(), url)
		need(t, err)
		all.WriteString(text)
	}
	return all.String()
}

// Chromium returns the path of a browser's program.
func Chromium(t testing.TB) string {
	t.Helper()
	path, err := locate.Chromium().Find()
	need(t, err)
	return path
}

// Node returns the path of the program.
func Node(t testing.TB) string {
	t.Helper()
	path, err := locate.Node().Find()
	need(t, err)
	return path
}

// Python returns the path of the program.
func Python(t testing.TB) string {
	t.Helper()
	path, err := locate.Python().Find()
	need(t, err)
	return path
}

// FreePort returns a loopback port that is not listened on and that no other caller
// is given until the test ends.
func FreePort(t testing.TB) int {
	t.Helper()
	p, err := claim()
	need(t, err)
	t.Cleanup(func() { closed(t, p.release()) })
	return p.port
}

// need ends the test unless err is nil: skipped where a part is not installed,
// but in CI a skip would hide that nothing was tested, so there it fails.
func need(t testing.TB, err error) {
	t.Helper()
	var missing *locate.Missing
	switch {
	case err == nil:
	case errors.As(err, &missing) && !inCI():
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func closed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func inCI() bool {
	ci, err := strconv.ParseBool(os.Getenv("CI"))
	return ci && err == nil
}

// SkipUnderRace skips a test that counts allocations: the race detector makes some of its own, and empties pools at random.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("allocations are not counted under the race detector")
	}
}
