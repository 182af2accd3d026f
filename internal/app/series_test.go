package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// series are the names and labels of all that /metrics shows.
func (s *stack) series() (all []string) {
	s.Helper()
	a := s.do(0, http.MethodGet, "/metrics", "")
	if a.status != http.StatusOK {
		s.Fatalf("%d", a.status)
	}
	for line := range strings.Lines(string(a.raw)) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// What comes from outside makes no series: after 10,000 recipients, networks, keys, references and paths there are as many as
// after one of each.
func TestSeriesAreBounded(t *testing.T) {
	const n = 10_000
	s := embedded(t).policy("    - {name: person, scope: recipient, limit: 5, window: 1h}\n    - {name: network, scope: ip, limit: 1, window: 1h}\n    - {name: all, scope: global, limit: 100, window: 1h}\n").start(1)
	admin := func(key string) func(*http.Request) { return bearer("a-wrong-admin-token-of-" + key) }
	each := func(i int) {
		ip := fmt.Sprintf("10.%d.%d.1", i>>8, i&255)
		ask := fmt.Sprintf(`{"channel":"email","to":"a%d@d%d.example","reference":"r%d","client_ip":%q}`, i, i, i, ip)
		for _, a := range []answer{
			s.do(0, http.MethodPost, "/v1/verifications", ask),
			s.do(0, http.MethodPost, "/v1/verifications", strings.Replace(ask, `"reference"`, fmt.Sprintf(`"purpose":"p%d","reference"`, i), 1)),
			s.do(0, http.MethodPost, "/v1/verifications", ask, bearer(fmt.Sprintf("sk_wrong%d", i))),
			s.do(0, http.MethodPost, fmt.Sprintf("/v1/verifications/v%d/check", i), `{"code":"123456"}`),
			s.do(0, http.MethodGet, fmt.Sprintf("/v1/x%d", i), ""),
			s.do(0, http.MethodGet, "/v1/admin/sends", "", admin(fmt.Sprint(i))),
		} {
			if a.status < 200 || a.status >= 500 {
				t.Errorf("%d %s", a.status, a.raw)
			}
		}
	}
	for i := range 150 { // the first refusals as well
		each(i)
	}
	s.await("the first mails", func() bool { return len(s.mails()) >= 100 })
	before := s.series()
	work := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range work {
				each(i)
			}
		})
	}
	for i := 150; i < n; i++ {
		work <- i
	}
	close(work)
	workers.Wait()
	after := s.series()
	for _, name := range after {
		if _, known := slices.BinarySearch(before, name); !known {
			t.Errorf("a new series: %s", name)
		}
	}
	if len(before) < 50 || len(after) != len(before) {
		t.Errorf("%d series before, %d after", len(before), len(after))
	}
	t.Logf("%d series", len(after))
}
