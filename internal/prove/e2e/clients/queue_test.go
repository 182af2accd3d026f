package clients

import (
	"net/http"
	"testing"

	"sendcode/internal/run/app/apptest"
)

// If a take waits for its turn while the service stops, it is answered at once.
func TestTakesThatWaitEndWithTheService(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write("limits: {short: [{name: short, key: user, limit: 1, window: 29s}]}\n").Start(1)
	take := func(wait string) (apptest.Answer, error) {
		return s.At(s.Replicas[0].Base, http.MethodPost, "/v1/limits/short/take", `{"keys":{"user":"42"}}`, with("Prefer", "wait="+wait))
	}
	a, err := take("0")
	s.Is("the only place", a, http.StatusOK, err == nil)
	waits := make(chan apptest.Answer, 1)
	wait := func() { a, _ := take("30"); waits <- a }
	go wait()
	// A later caller has to wait for longer than the window only if another one waits before it.
	s.Await("another one to wait", func() bool {
		select {
		case <-waits: // on a busy machine, the earlier take may have got its turn already
			go wait()
		default:
		}
		return s.Post("/v1/limits/short/take", `{"keys":{"user":"42"}}`).RetryAfter > 29
	})
	s.Stop(0)
	s.Is("a caller that waits while the service stops", <-waits, http.StatusTooManyRequests)
}
