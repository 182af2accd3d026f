package operators

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
)

// series are the names and labels of all that /metrics shows.
func series(s *apptest.Stack) (all []string) {
	s.Helper()
	for line := range strings.Lines(string(s.Get("/metrics").Raw)) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// What comes from outside makes no series: after 150 recipients, networks, keys, references and
// paths there are as many as after 60, which had the first refusals.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(
		"    - {name: person, scope: recipient, limit: 5, window: 1h}\n    - {name: network, scope: ip, limit: 1, window: 1h}\n    - {name: all, scope: global, limit: 40, window: 1h}\n").Start(1)
	each := func(i int) {
		ask := fmt.Sprintf(`{"channel":"email","to":"a%d@d%d.example","reference":"r%d","client_ip":"10.0.%d.1"}`,
			i, i, i, i)
		for _, a := range []apptest.Answer{
			s.Post("/v1/verifications", ask),
			s.Post("/v1/verifications", strings.Replace(ask, `"reference"`,
				fmt.Sprintf(`"purpose":"p%d","reference"`, i), 1)),
			s.Post("/v1/verifications", ask, apptest.As(fmt.Sprint("sk_wrong", i))),
			s.Post(fmt.Sprintf("/v1/verifications/v%d/check", i), `{"code":"123456"}`),
			s.Get(fmt.Sprint("/v1/x", i)),
			s.Get("/v1/admin/sends", apptest.As(fmt.Sprint("a-wrong-admin-token-of-", i))),
		} {
			if a.StatusCode < 200 || a.StatusCode >= 500 {
				t.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		}
	}
	for i := range 60 {
		each(i)
	}
	s.Await("the first mails", func() bool { return len(s.Mails()) >= 40 })
	before := series(s)
	for i := range 90 {
		each(60 + i)
	}
	after := series(s)
	without := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
	}
	if len(before) < 50 || !slices.Equal(before, after) {
		t.Errorf("of %d series these are new: %q; these are gone: %q", len(before), without(after, before),
			without(before, after))
	}
}

// Every part that a send passes is counted and timed, from 0 on; what waits, the pools and the room
// are shown.
func TestMetricsOfEachPart(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Start(1)
		server := "127.0.0.1"
		if s.SMTP != nil {
			server = s.SMTP.Addr()
		}
		counts := []string{`sendcode_statement_seconds_count{kind="begin"}`,
			`sendcode_statement_seconds_count{kind="finish"}`,
			`sendcode_http_request_seconds_count{route="/v1/verifications",status="2xx"}`,
			`sendcode_requests_total{app="default",channel="email",outcome="admitted",rule=""}`,
			`sendcode_send_seconds_count{app="default",channel="email",code="ours",outcome="sent"}`,
			`sendcode_delivery_attempt_seconds_count{channel="email",class="accepted",server="` + server}
		shown := []string{`sendcode_build_info{go="` + runtime.Version() + `",version="` + app.Version() + `"} 1`,
			`sendcode_outbox_sends{channel="email"} `, `sendcode_outbox_oldest_seconds{channel="sms"} 0`,
			`sendcode_http_request_seconds_count{route="/v1/verifications/:id/check",status="5xx"} 0`,
			`sendcode_check_bounds_total{app="default",bound="app",channel="email"} 0`}
		if s.Postgres != nil {
			counts = append(counts, `sendcode_redis_seconds_count{call="pipeline"}`)
			shown = append(shown, `sendcode_pool_connections{pool="postgres_begin",state="idle"} `,
				`sendcode_pool_waits_total{pool="redis"} `)
		} else {
			shown = append(shown, `sendcode_pool_connections{pool="sqlite_writer",state="idle"} `,
				`sendcode_disk_free_bytes `, `sendcode_disk_size_bytes `)
		}
		got := map[string]float64{}
		read := func() (all string) {
			all = string(s.Get("/metrics").Raw)
			clear(got)
			for line := range strings.Lines(all) {
				for _, series := range counts {
					if strings.HasPrefix(line, series) {
						n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
						apptest.Must(t, err)
						got[series] += n
					}
				}
			}
			return all
		}
		read()
		for _, series := range counts {
			if n, there := got[series]; !there || n != 0 && !strings.Contains(series, "redis") {
				t.Errorf("%s begins at %v, %v", series, n, there)
			}
		}
		for _, series := range shown {
			// a busy database answers a scrape too late for some series
			s.Await(series, func() bool { return strings.Contains(read(), "\n"+series) })
		}
		s.Is("a send", s.Ask(0, apptest.Ana, apptest.Patiently), http.StatusAccepted)
		s.Await("a count of each", func() bool {
			read()
			return !slices.ContainsFunc(counts, func(series string) bool { return got[series] < 1 })
		})
	})
}
