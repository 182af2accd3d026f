package clients

import (
	"context"
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

const waitingLimits = `limits:
  second: [{name: second, key: user, limit: 10, window: 1s}, {name: hour, key: user, limit: 100000, window: 1h}]
  short:  [{name: short, key: user, limit: 1, window: 19s}]
`

// A client that hangs up frees its turn; one that waits while the service stops is answered at
// once.
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
		return s.At(s.Replicas[0].Base, http.MethodPost, "/v1/limits/short/take", `{"keys":{"user":"42"}}`,
			func(r *http.Request) {
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
