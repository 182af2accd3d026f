package apptest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"sendcode/internal/store"
)

// History has every send in the database, the oldest first.
type History []store.SendOrRefusal

// History reads the database of the first replica.
func (s *Stack) History() History {
	s.Helper()
	var all History
	filter := store.Filter{Limit: 200}
	for {
		page, err := s.Replicas[0].DB().Sends(s.Context(), filter)
		Must(s.T, err)
		for _, row := range page {
			if row.Status != store.Refused {
				all = append(all, row)
			}
		}
		if len(page) < filter.Limit {
			slices.Reverse(all)
			return all
		}
		last := page[len(page)-1]
		filter.Before = &store.Cursor{At: last.LoggedAt, ID: last.ID}
	}
}

// DatabaseSlow is the line of /readyz of a database that answers late.
const DatabaseSlow = "degraded: database_slow: The database answers slowly."

// Ready returns the status and body of replica i's /readyz, without the line [DatabaseSlow]: on a
// busy machine any database is slow.
func (s *Stack) Ready(i int) (status int, body string) {
	s.Helper()
	a := s.Do(i, http.MethodGet, "/readyz", "")
	lines := slices.DeleteFunc(strings.Split(string(a.Raw), "\n"), func(line string) bool { return line == DatabaseSlow })
	return a.StatusCode, cmp.Or(strings.Join(lines, "\n"), "ok")
}

// Unavailable checks that an answer is a 503 with a Retry-After and without the quota.
func (s *Stack) Unavailable(a Answer) {
	s.Helper()
	if a.StatusCode != http.StatusServiceUnavailable || a.Problem() != "unavailable" || a.Header.Get("Retry-After") == "" {
		s.Errorf("%d %s %v", a.StatusCode, a.Raw, a.Header)
	}
	if strings.Contains(string(a.Raw), "quota") && strings.Contains(string(a.Raw), "rules") {
		s.Errorf("an outage speaks of the quota: %s", a.Raw)
	}
}

// AwaitReady waits until [Stack.Ready] of replica i returns this status and body; "" is any body.
func (s *Stack) AwaitReady(i, status int, body string) {
	s.Helper()
	s.Await(fmt.Sprint("readiness: ", status, " ", body), func() bool {
		got, gotBody := s.Ready(i)
		return got == status && (body == "" || gotBody == body)
	})
}

// Metric returns the value in the line of /metrics that begins with this text; "" if there is no
// such line.
func (s *Stack) Metric(i int, begin string) string {
	s.Helper()
	for line := range strings.Lines(string(s.Do(i, http.MethodGet, "/metrics", "").Raw)) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSpace(line[strings.LastIndex(line, " "):])
		}
	}
	return ""
}

// Counts fails the test unless, in the metrics of the first replica, the line with this beginning
// has the value want.
func (s *Stack) Counts(begin, want string) {
	s.Helper()
	if got := s.Metric(0, begin); got != want {
		s.Errorf("the metrics say %q of %s, want %q", got, begin, want)
	}
}

// Reloads returns how often replica i reloaded its configuration with this outcome, from its
// metrics.
func (s *Stack) Reloads(i int, outcome string) string {
	s.Helper()
	return s.Metric(i, `sendcode_config_reloads_total{outcome="`+outcome+`"}`)
}

// Hangup makes replica i reload its configuration and waits for the outcome. With "applied" it also
// ends if nothing is left to apply: on a slow machine the replica may have read the new file before
// the hangup.
func (s *Stack) Hangup(i int, outcome string) {
	s.Helper()
	before, unchanged := s.Reloads(i, outcome), s.Reloads(i, "unchanged")
	s.Replicas[i].Hangup <- syscall.SIGHUP
	s.Await("the configuration to be "+outcome, func() bool {
		return s.Reloads(i, outcome) != before || outcome == "applied" && s.Reloads(i, "unchanged") != unchanged
	})
}
