package clients

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

const waitingLimits = `limits:
  web:    [{name: minute, key: [resource, ip], limit: 100, window: 60s}]
  second: [{name: second, key: user, limit: 10, window: 1s}, {name: hour, key: user, limit: 100000, window: 1h}]
  short:  [{name: short, key: user, limit: 1, window: 19s}]
`

// takes has n callers take at once, each waiting for so many seconds, and returns when the admitted and the refused ones were answered.
func takes(s *apptest.Stack, n int, limit, keys, wait string) (admitted, refused []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range n {
		all.Go(func() {
			a, err := s.At(s.Replicas[0].Base, http.MethodPost, "/v1/limits/"+limit+"/take", `{"keys":`+keys+`}`,
				func(r *http.Request) { r.Header.Set("Prefer", "wait="+wait) })
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || a.Header.Get("Preference-Applied") != "wait="+wait:
				s.Errorf("%d %s %v %v", a.StatusCode, a.Raw, a.Header, err)
			case a.StatusCode == http.StatusOK:
				admitted = append(admitted, time.Since(began))
			case a.StatusCode == http.StatusTooManyRequests && a.RetryAfter > 0:
				refused = append(refused, time.Since(began))
			default:
				s.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		})
	}
	all.Wait()
	return admitted, refused
}

// Callers wait for a place, or are refused at once if none can come in time. The limiter's own record has never more than the limit.
func TestTakesThatWait(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Write(waitingLimits).Start(1)
	in, out := takes(s, 500, "web", `{"resource":"/x","ip":"203.0.113.9"}`, "30")
	if len(in) != 100 || len(out) != 400 || slices.Max(out) > 30*time.Second {
		t.Errorf("%d in, %d out, the last after %v", len(in), len(out), slices.Max(out))
	}
	in, out = takes(s, 100, "second", `{"user":"42"}`, "4")
	if len(in)+len(out) != 100 || len(in) < 15 || len(in) > 50 {
		t.Errorf("%d in, %d out", len(in), len(out))
	}
	t.Logf("10 per second, 100 callers waiting 4 s: %d in, %d out", len(in), len(out))
	client, found := s.RedisClient(), 0
	keys, err := client.Keys(t.Context(), "*").Result()
	apptest.Must(t, err)
	for _, key := range keys {
		events := client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		if len(events) != len(in) {
			continue
		}
		found++
		for i := 10; i < len(events); i++ {
			if apart := events[i].Score - events[i-10].Score; apart < 1e6 {
				t.Errorf("event %d came %v µs after the tenth before it", i, apart)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d buckets have %d events", found, len(in))
	}
}

// A client that hangs up frees its turn; one that waits while the service stops is answered at once.
func TestTakesThatStopWaiting(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write(waitingLimits).Start(1)
	take := func(wait string, change ...func(*http.Request)) (apptest.Answer, error) {
		return s.At(s.Replicas[0].Base, http.MethodPost, "/v1/limits/second/take", `{"keys":{"user":"42"}}`,
			append(change, func(r *http.Request) { r.Header.Set("Prefer", "wait="+wait) })...)
	}
	a, err := take("x")
	s.Is("a wait that is no number", a, http.StatusUnprocessableEntity, err == nil)
	a, err = take("31")
	s.Is("a longer wait", a, http.StatusOK, err == nil, a.Header.Get("Preference-Applied") == "wait=30")
	a, err = take("0")
	s.Is("no wait", a, http.StatusOK, err == nil, a.Header.Get("Preference-Applied") == "")
	slow := func(ctx context.Context) (apptest.Answer, error) {
		return s.At(s.Replicas[0].Base, http.MethodPost, "/v1/limits/short/take", `{"keys":{"user":"42"}}`, func(r *http.Request) {
			r.Header.Set("Prefer", "wait=30")
			*r = *r.WithContext(ctx)
		})
	}
	inLine := func(what string, want bool) { // as the wait of a caller behind tells
		s.Await(what, func() bool {
			return (s.Post("/v1/limits/short/take", `{"keys":{"user":"42"}}`).RetryAfter > 20) == want
		})
	}
	a, err = slow(t.Context())
	s.Is("the only place", a, http.StatusOK, err == nil)
	ctx, hangUp := context.WithCancel(t.Context())
	gone, waits := make(chan error, 1), make(chan apptest.Answer, 1)
	go func() { _, err := slow(ctx); gone <- err }()
	inLine("the client to wait", true)
	hangUp()
	if err := <-gone; err == nil {
		t.Error("the client that hung up got an answer")
	}
	inLine("its turn to be free", false)
	go func() { a, _ := slow(t.Context()); waits <- a }()
	inLine("another one to wait", true)
	s.Stop(0)
	s.Is("a caller that waits while the service stops", <-waits, http.StatusTooManyRequests)
}
