//go:build nightly

package outages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// While the disk is full, sends are refused as unavailable, and the service reports that it is
// degraded, and why. Once the disk has free space, the service is no longer degraded. Each
// recipient can then get as many codes as the policy allows, since the refused sends used up no
// place. Limiter and database count the same.
func TestFullDiskRefusesSendsWithoutCountingThem(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *apptest.Stack{"SQLite": apptest.Embedded, "Postgres": apptest.OnOwnPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servertest.OnSmallDisk(t, 32<<20, func(disk *servertest.Disk) { fillUnderTheService(open(t).PutOn(disk), disk) })
		})
	}
}

func fillUnderTheService(s *apptest.Stack, disk *servertest.Disk) {
	s.Policy("    - {name: pair, scope: recipient, limit: 2, window: 1h}\n").Start(1)
	ask := func(to string, more ...func(*http.Request)) apptest.Answer {
		return s.Post("/v1/verifications", `{"channel":"email","to":"`+to+`","trust":"known"}`, more...)
	}
	s.Is("a send", ask("before@example.com"), http.StatusAccepted)
	s.AwaitReady(0, 200, "ok")
	apptest.Must(s.T, disk.Fill())
	in, out := map[string]int{}, 0
	for n := 0; out < 30 && n < 3000; n++ { // the sends first use up the pages with room
		to := fmt.Sprintf("person-%d@example.com", n%40)
		var key []func(*http.Request)
		// With an Idempotency-Key, the service asks the database before the limiter; without one,
		// it asks the limiter first.
		if n%2 == 0 {
			key = append(key, apptest.WithKey(fmt.Sprintf("a-key-of-its-own-for-%024d", n)))
		}
		a := ask(to, key...)
		switch {
		case a.StatusCode == http.StatusAccepted:
			in[to]++
		case a.StatusCode == http.StatusServiceUnavailable:
			s.Unavailable(a)
			out++
		case a.StatusCode != http.StatusTooManyRequests || in[to] < 2:
			s.Fatalf("%s: %d %s", to, a.StatusCode, a.Raw)
		}
	}
	if out < 30 {
		s.Fatalf("%d sends found no room", out)
	}
	s.AwaitReady(0, http.StatusOK, "degraded: database_full: The database has no room left to write.")
	s.Counts("sendcode_database_writable ", "0")
	apptest.Must(s.T, disk.MakeRoom())
	s.AwaitReady(0, 200, "ok")
	for n := range 40 {
		to := fmt.Sprintf("person-%d@example.com", n)
		s.Await("every reservation of "+to, func() bool {
			look := s.Post("/v1/quota", `{"channel":"email","to":"`+to+`"}`)
			return len(look.Quota.Rules) == 1 && look.Quota.Rules[0].Remaining == 2-in[to]
		})
		for range 2 - in[to] {
			s.Is(fmt.Sprintf("%s after %d", to, in[to]), ask(to), http.StatusAccepted)
		}
		s.Is(fmt.Sprintf("%s: one too many", to), ask(to), http.StatusTooManyRequests)
	}
	for _, line := range []string{"database away: nothing is sent", "database back"} {
		servertest.Same(s, line, strings.Count(s.Printed.String(), line), 1)
	}
}
