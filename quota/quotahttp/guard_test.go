package quotahttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

var visits = quota.Policy{Name: "web", Rules: []quota.Rule{{Name: "visits", Scope: quota.IP, Limit: 100, Window: time.Minute}}}

// web is a server with a Guard, on a clock that the test moves.
type web struct {
	http.Handler
	t     *testing.T
	now   time.Time
	guard *Guard
}

func serve(t *testing.T, c Config) *web {
	mux := http.NewServeMux()
	w := &web{Handler: mux, t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 123_457_000, time.UTC)}
	if c.Limiter == nil {
		c.Limiter = quota.NewMemory(func() time.Time { return w.now })
	}
	if c.Policy.Name == "" {
		c.Policy = visits
	}
	guard, err := New(c)
	servertest.OK(t, err)
	w.guard = guard
	mux.Handle("GET /prices/{id}", guard.Take(ok))
	mux.Handle("GET /stock", guard.Take(ok))
	mux.Handle("GET /look", guard.Peek(ok))
	mux.Handle("GET /hook", guard.Record(ok))
	return w
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })

func (w *web) get(path, peer string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

func (w *web) wants(status int, path, peer string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	rec := w.get(path, peer, headers...)
	if rec.Code != status {
		w.t.Errorf("%s from %s: %d %s, want %d", path, peer, rec.Code, rec.Body, status)
	}
	return rec
}

// spend uses up all places except n.
func (w *web) spend(path, peer string, n int) {
	w.t.Helper()
	for range 100 - n {
		w.wants(http.StatusOK, path, peer)
	}
}

func limitOf(rec *httptest.ResponseRecorder) string { return rec.Header().Get("RateLimit") }

const ann, bob = "192.0.2.1:4711", "192.0.2.2:4711"

func TestGuardRefusal(t *testing.T) {
	w := serve(t, Config{})
	w.spend("/stock", ann, 0)
	w.now = w.now.Add(18_287 * time.Millisecond)
	rec := w.wants(http.StatusTooManyRequests, "/stock", ann)
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "Cache-Control": "no-store", "Retry-After": "42",
		"RateLimit":        `"visits";r=0;t=42`,
		"RateLimit-Policy": `"visits";q=100;w=60`,
	} {
		servertest.Same(t, name, rec.Header().Get(name), want)
	}
	const want = `{"blocked_by":"visits","detail":"The rule visits has reached its limit; the next request is admitted after 42 s.",` +
		`"quota":{"allowed":false,"retry_after":42,"retry_at":"2026-05-01T12:01:00.124Z","blocked_by":"visits",` +
		`"rules":[{"name":"visits","scope":"ip","limit":100,"window":60,"remaining":0,"reset_after":42,"retry_after":42}]},` +
		`"retry_after":42,"retry_after_ms":41713,"status":429,"title":"Quota exceeded",` +
		`"type":"/problems/quota-exceeded","violated-policies":["visits"]}`
	servertest.Same(t, "body", rec.Body.String(), want)
}

func all(*http.Request) string { return "all" }

// A recorded event is kept for the longest rule of its scope, wherever that rule is in the policy.
func TestRecordRefusesNothing(t *testing.T) {
	day := quota.Rule{Name: "day", Scope: quota.IP, Limit: 101, Window: 24 * time.Hour}
	w := serve(t, Config{Resource: all, Policy: quota.Policy{Name: "two", Rules: []quota.Rule{day, visits.Rules[0]}}})
	w.spend("/hook", ann, 1)
	for range 3 {
		servertest.Same(t, "RateLimit of a recorded request", limitOf(w.wants(http.StatusOK, "/hook", ann)), "")
		w.now = w.now.Add(time.Second)
	}
	for _, wait := range []time.Duration{24*time.Hour - 3*time.Second - time.Microsecond, time.Microsecond} {
		w.wants(http.StatusTooManyRequests, "/look", ann)
		w.now = w.now.Add(wait)
	}
	// 99 events and the first recorded event have left.
	servertest.Same(t, "RateLimit", limitOf(w.wants(http.StatusOK, "/look", ann)), `"day";r=99;t=1`)
}

// Rules of all scopes decide together. If one rule refuses an event, no scope counts it.
func TestGuardSeveralScopes(t *testing.T) {
	rule := func(name string, s quota.Scope, limit int) quota.Rule {
		return quota.Rule{Name: name, Scope: s, Limit: limit, Window: time.Minute}
	}
	w := serve(t, Config{
		Policy: quota.Policy{Name: "many", Rules: []quota.Rule{
			rule("user", quota.Recipient, 2), rule("address", quota.IP, 3), rule("route", quota.Purpose, 5),
			rule("network", quota.Network, 7), rule("all", quota.Global, 9),
		}},
		Subjects: map[quota.Scope]Namer{quota.Recipient: func(r *http.Request) string { return r.Header.Get("User") }},
	})
	const far = "198.51.100.1:1"
	for i, r := range []struct{ path, peer, user, blocked string }{
		{"/stock", ann, "u1", ""},
		{"/stock", ann, "u1", ""},
		{"/stock", ann, "u1", "user"},
		{"/stock", ann, "u1", "user"},
		{"/stock", ann, "u2", ""},
		{"/stock", ann, "u2", "address"},
		{"/stock", bob, "u2", ""},
		{"/stock", far, "u3", ""},
		{"/stock", far, "u4", "route"},
		// For another resource, only the rule "all" has counted earlier requests.
		{"/prices/1", bob, "v0", ""},
		{"/prices/1", bob, "v1", ""},
		{"/prices/1", bob, "v2", ""},
		{"/prices/1", ann, "v4", ""},
		{"/prices/1", ann, "v5", "all"},
	} {
		var body struct {
			BlockedBy string `json:"blocked_by"`
		}
		_ = json.Unmarshal(w.get(r.path, r.peer, "User", r.user).Body.Bytes(), &body)
		servertest.Same(t, fmt.Sprintf("request %d: blocked by", i), body.BlockedBy, r.blocked)
		w.now = w.now.Add(time.Microsecond)
	}
}

func TestGuardSkip(t *testing.T) {
	skip := func(r *http.Request) bool { return r.Header.Get("Probe") != "" }
	w := serve(t, Config{Skip: skip, Resource: all})
	w.spend("/stock", ann, 0)
	for _, path := range []string{"/stock", "/look", "/hook"} {
		servertest.Same(t, "RateLimit of "+path, limitOf(w.wants(http.StatusOK, path, ann, "Probe", "1")), "")
	}
	w.now = w.now.Add(time.Minute)
	servertest.Same(t, "RateLimit", limitOf(w.wants(http.StatusOK, "/look", ann)), `"visits";r=100;t=0`)
}

func TestGuardOwnAnswers(t *testing.T) {
	w := serve(t, Config{Refuse: func(w http.ResponseWriter, _ *http.Request, d quota.Decision) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, d.Violated(), w.Header().Get("Retry-After"))
	}})
	w.spend("/stock", ann, 0)
	servertest.Same(t, "refusal", w.wants(http.StatusTeapot, "/stock", ann).Body.String(), "[visits]60")
	w = serve(t, Config{Limiter: away(errors.New("mine")), Unavailable: func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}})
	servertest.Same(t, "without a limiter", w.wants(http.StatusBadGateway, "/stock", ann).Body.String(), "mine\n")
	const page = "https://shop.example/help/quota"
	w = serve(t, Config{ProblemType: page})
	w.spend("/stock", ann, 0)
	if body := w.wants(http.StatusTooManyRequests, "/stock", ann).Body.String(); !strings.Contains(body, `"type":"`+page+`"`) {
		t.Error(body)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{Policy: quota.Policy{Name: "Web", Rules: []quota.Rule{
		{Name: "user", Scope: quota.Recipient, Limit: 0, Window: time.Minute},
	}}})
	for _, part := range []string{"no limiter", `policy name "Web"`, "limit 0", `no bucket for scope recipient (rule "user")`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("nothing about %q: %v", part, err)
		}
	}
}

func TestPoliciesOfTwoNamesCountApart(t *testing.T) {
	limiter := quota.NewMemory(time.Now)
	serve(t, Config{Limiter: limiter}).spend("/stock", ann, 0)
	serve(t, Config{Limiter: limiter}).wants(http.StatusTooManyRequests, "/stock", ann)
	other := quota.Policy{Name: "other", Rules: visits.Rules}
	serve(t, Config{Limiter: limiter, Policy: other}).wants(http.StatusOK, "/stock", ann)
}

// If the Guard is in front of the router, requests have no pattern yet, so all requests are one
// resource.
func TestGuardBeforeTheRouterCountsAllRoutesAsOne(t *testing.T) {
	w := serve(t, Config{})
	w.Handler = w.guard.Take(w.Handler)
	for i := range 50 {
		w.wants(http.StatusNotFound, fmt.Sprint("/none/", i), ann)
		w.wants(http.StatusNotFound, fmt.Sprint("/other/", i), ann)
	}
	w.wants(http.StatusTooManyRequests, "/stock", ann)
}

// failing is a limiter that fails if err returns an error.
type failing struct {
	*quota.Memory
	err func(context.Context) error
}

func (f failing) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if err := f.err(ctx); err != nil {
		return quota.Decision{}, err
	}
	return f.Memory.Take(ctx, r)
}

func (f failing) Peek(ctx context.Context, _ quota.Request) (quota.Decision, error) {
	return quota.Decision{}, f.err(ctx)
}

func (f failing) Record(context.Context, string, time.Duration, []quota.AgedEvent) error {
	return f.err(context.Background())
}

func away(err error) failing { return failing{err: func(context.Context) error { return err }} }

func TestGuardRefusesWithoutALimiter(t *testing.T) {
	secret := away(fmt.Errorf("%w: dial tcp 10.9.8.7:6379", quota.ErrUnavailable))
	for _, path := range []string{"/stock", "/look", "/hook"} {
		rec := serve(t, Config{Limiter: secret}).wants(http.StatusServiceUnavailable, path, ann)
		if h := rec.Header(); h.Get("Retry-After") != "2" || h.Get("Cache-Control") != "no-store" ||
			h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.Contains(rec.Body.String(), "10.9") || !strings.Contains(rec.Body.String(), `"status":503`) {
			t.Errorf("%s: %s", path, rec.Body)
		}
		serve(t, Config{Limiter: secret, Open: true}).wants(http.StatusOK, path, ann)
		// Open admits requests only for ErrUnavailable, so it does not hide the caller's mistakes.
		serve(t, Config{Limiter: away(quota.ErrBadRequest), Open: true}).wants(http.StatusServiceUnavailable, path, ann)
	}
}

// If a client hangs up at once, its request still counts, so hanging up is no way past an open
// Guard. The limiter here fails if the context has ended, as a limiter over the network does.
func TestGuardCountsHangUps(t *testing.T) {
	limiter := failing{quota.NewMemory(time.Now), func(ctx context.Context) error {
		if ctx.Err() != nil {
			return quota.ErrUnavailable
		}
		return nil
	}}
	w := serve(t, Config{Limiter: limiter, Open: true})
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/stock", nil))
	// Both requests count for ann: httptest's requests come from 192.0.2.1, which is her address.
	if limit := limitOf(w.wants(http.StatusOK, "/stock", ann)); !strings.HasPrefix(limit, `"visits";r=98;`) {
		t.Error(limit)
	}
}
