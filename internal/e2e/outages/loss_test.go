package outages

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"sendcode/internal/app/apptest"
)

const secondAndHour = "    - {name: second, scope: recipient, limit: 5, window: 1s}\n    - {name: hour, scope: recipient, limit: 5, window: %s}\n"

// told is a stack whose answers are checked for what they say of the hour.
type told struct{ *apptest.Stack }

// says fails the test unless so much of the hour is left, and the wait is that of the hour where it
// is long.
func (s told) says(what string, a apptest.Answer, left int, long bool) {
	s.Helper()
	if len(a.Quota.Rules) != 2 || a.Quota.Rules[1].Remaining != left || long != (a.Quota.RetryAfter > 3000) {
		s.Errorf("%s: %d %s; want %d left", what, a.StatusCode, a.Raw, left)
	}
}

// accepted asks for a code.
func (s told) accepted(i int) apptest.Answer {
	s.Helper()
	a := s.Ask(i, apptest.Ana)
	s.Is("a send", a, http.StatusAccepted)
	return a
}

// look is a look on the second replica.
func (s told) look() apptest.Answer {
	s.Helper()
	return s.Do(1, http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, apptest.Ana))
}

// Redis loses everything three times, and no answer of either replica shows it.
func TestAnswersAreTrueAfterRedisLostEverything(t *testing.T) {
	t.Parallel()
	s := told{apptest.OnRealParts(t).Policy(fmt.Sprintf(secondAndHour, "1h")).Start(2)}
	for range 3 {
		s.accepted(0)
	}
	s.Flush()
	s.says("a look on the other replica", s.look(), 2, false)
	s.Flush()
	s.says("the 4th", s.accepted(0), 1, false)
	s.Flush()
	fifth := s.accepted(1)
	s.says("the 5th", fifth, 0, true)
	s.Redis.Stop()
	apptest.Must(t, s.Redis.Start())
	s.AwaitReady(0, 200, "ok")
	s.Await("the history in Redis", func() bool { // a bucket is rewritten at most once a second
		s.says("GET", s.Look(fifth.ID), 0, true)
		keys, err := s.RedisClient().Keys(t.Context(), "*").Result()
		apptest.Must(t, err)
		// the replicas' heartbeat
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "sendcode{written}" })
		return len(keys) == 1
	})
	s.says("GET again", s.Look(fifth.ID), 0, true)
	sixth := s.Ask(0, apptest.Ana)
	s.Is("the 6th", sixth, http.StatusTooManyRequests, sixth.RetryAfter > 3000)
}
