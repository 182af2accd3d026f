package operators

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app/apptest"
)

// series are the names and labels of all that /metrics shows.
func series(s *apptest.Stack) (all []string) {
	s.Helper()
	a := s.Do(0, http.MethodGet, "/metrics", "")
	if a.StatusCode != http.StatusOK {
		s.Fatalf("%d", a.StatusCode)
	}
	for line := range strings.Lines(string(a.Raw)) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// What comes from outside makes no series: after 400 recipients, networks, keys, references and paths there are as many as
// after one of each.
func TestSeriesAreBounded(t *testing.T) {
	const n = 400
	s := apptest.Embedded(t).Policy("    - {name: person, scope: recipient, limit: 5, window: 1h}\n    - {name: network, scope: ip, limit: 1, window: 1h}\n    - {name: all, scope: global, limit: 100, window: 1h}\n").Start(1)
	admin := func(key string) func(*http.Request) { return apptest.Bearer("a-wrong-admin-token-of-" + key) }
	each := func(i int) {
		ip := fmt.Sprintf("10.%d.%d.1", i>>8, i&255)
		ask := fmt.Sprintf(`{"channel":"email","to":"a%d@d%d.example","reference":"r%d","client_ip":%q}`, i, i, i, ip)
		for _, a := range []apptest.Answer{
			s.Do(0, http.MethodPost, "/v1/verifications", ask),
			s.Do(0, http.MethodPost, "/v1/verifications", strings.Replace(ask, `"reference"`, fmt.Sprintf(`"purpose":"p%d","reference"`, i), 1)),
			s.Do(0, http.MethodPost, "/v1/verifications", ask, apptest.Bearer(fmt.Sprintf("sk_wrong%d", i))),
			s.Do(0, http.MethodPost, fmt.Sprintf("/v1/verifications/v%d/check", i), `{"code":"123456"}`),
			s.Do(0, http.MethodGet, fmt.Sprintf("/v1/x%d", i), ""),
			s.Do(0, http.MethodGet, "/v1/admin/sends", "", admin(fmt.Sprint(i))),
		} {
			if a.StatusCode < 200 || a.StatusCode >= 500 {
				t.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		}
	}
	for i := range 150 { // the first refusals as well
		each(i)
	}
	s.Await("the first mails", func() bool { return len(s.Mails()) >= 100 })
	before := series(s)
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
	after := series(s)
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
