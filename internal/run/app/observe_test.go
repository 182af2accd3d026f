package app_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// series returns the names and labels of all that /metrics shows.
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

var seriesRecipients = flag.Int("app.recipients", 150, "recipients, networks, keys, references and paths that come from outside")

// Values from requests make no new series. After 150 recipients, networks, keys, references and
// paths there are as many series as after 60, among which were the first refusals.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(
		"    - {name: person, scope: recipient, limit: 5, window: 1h}\n    - {name: network, scope: ip, limit: 1, window: 1h}\n    - {name: all, scope: global, limit: 40, window: 1h}\n").Start(1)
	each := func(i int) {
		ask := fmt.Sprintf(`{"channel":"email","to":"a%d@d%d.example","trust":"known","reference":"r%d","client_ip":"10.%d.%d.1"}`, i, i, i, i>>8, i&255)
		for _, a := range []apptest.Answer{
			s.Post("/v1/verifications", ask),
			s.Post("/v1/verifications", strings.Replace(ask, `"reference"`, fmt.Sprintf(`"purpose":"p%d","reference"`, i), 1)),
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
	for i := 60; i < *seriesRecipients; i++ {
		each(i)
	}
	after := series(s)
	if lines := golden.Diff("series", strings.Join(before, "\n"), strings.Join(after, "\n")); len(before) < 50 || lines != "" {
		t.Errorf("of %d series these are new or gone:\n%s", len(before), lines)
	}
}

// Profiles are served only on Config.DebugAddr, and only if the Host header names this machine.
func TestServeProfiles(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	cfg := s.Config()
	cfg.DebugAddr = "127.0.0.1:0"
	a, err := s.New(cfg)
	apptest.Must(t, err)
	s.Serve(a)
	var line struct{ Address string }
	apptest.Must(t, json.Unmarshal([]byte(s.LinesOf(`"msg":"profiles served"`)), &line))
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost:6060": http.StatusOK,
		"rebound.example:6060": http.StatusForbidden,
	} {
		a, err := s.At("http://"+line.Address, http.MethodGet, "/debug/pprof/heap", "", func(r *http.Request) { r.Host = host })
		apptest.Must(t, err)
		if a.StatusCode != want {
			t.Errorf("%q: %d", host, a.StatusCode)
		}
	}
	if a := s.Get("/debug/pprof/heap"); a.StatusCode != http.StatusNotFound {
		t.Errorf("/debug/pprof/heap of the API: %d", a.StatusCode)
	}
}

// A send is traced from the request, which is in the caller's trace, to the attempt that offers the
// mail. A stop exports the remaining spans. Package traces tests the attributes of spans.
func TestTracesOfASend(t *testing.T) {
	var raw servertest.Text
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&raw, r.Body) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	s := apptest.Embedded(t).Start(1)
	trace := []byte("a-callers-trace!") // 16 bytes
	a := s.Ask(0, apptest.Ana, apptest.Patiently, func(r *http.Request) {
		r.Header.Set("Traceparent", fmt.Sprintf("00-%x-00f067aa0ba902b7-01", trace))
	})
	s.Is("a send", a, http.StatusAccepted, a.Send.Status == "sent", a.Header.Get("X-Request-Id") == fmt.Sprintf("%x", trace))
	s.Stop(0)
	for _, span := range []string{
		string(trace), "POST /v1/verifications", "limiter take", "database begin", "attempt",
		"offer", "database finish",
	} {
		if !strings.Contains(raw.String(), span) {
			t.Errorf("no span has %q", span)
		}
	}
	if code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0]); strings.Contains(raw.String(), code) ||
		strings.Contains(raw.String(), "ana.maria") {
		t.Error("a span shows the code or the recipient")
	}
}

// increased matches a counter with its labels in an alert that uses the counter's increase.
var increased = regexp.MustCompile(`increase\((\w+)(?:\{([^}]*)\})?\[`)

// Prometheus sees no increase in a series that begins with its first event, so each series whose
// increase an alert uses exists from the start.
func TestCountersOfAlertsBeginAtZero(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(1)
	ofSettings := []string{"sendcode_spend_refused_total", "sendcode_provider_events_total"} // these counters depend on settings; InitSpendCap and InitProvider create them
	alerts, err := os.ReadFile("../../../docs/alerts.yaml")
	apptest.Must(t, err)
	all, seen := strings.Join(series(s), "\n"), 0
	for _, m := range increased.FindAllStringSubmatch(string(alerts), -1) {
		want := regexp.QuoteMeta(m[1]) + `\{`
		for label := range strings.SplitSeq(m[2], `",`) {
			name, value, equal := strings.Cut(strings.TrimSuffix(label, `"`), `="`)
			if equal && !strings.HasSuffix(name, "!") {
				want += `.*` + name + `="` + regexp.QuoteMeta(value) + `"`
			}
		}
		want = strings.TrimSuffix(want, `\{`)
		if seen++; !regexp.MustCompile(want).MatchString(all) && !slices.Contains(ofSettings, m[1]) {
			t.Errorf("no series has %s", m[0])
		}
	}
	if seen < 20 {
		t.Errorf("%d counters", seen)
	}
}
