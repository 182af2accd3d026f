package faults

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

const secondAndHour = "    - {name: second, scope: recipient, limit: 1, window: 1s}\n    - {name: hour, scope: recipient, limit: 5, window: %s}\n"

// hourSays fails the test unless so much of the hour is left, and the wait is that of the hour where it is long.
func hourSays(s *apptest.Stack, what string, a apptest.Answer, left int, long bool) {
	s.Helper()
	if len(a.Quota.Rules) != 2 || a.Quota.Rules[1].Remaining != left || long != (a.Quota.RetryAfter > 3000) {
		s.Errorf("%s: %d %s; want %d left", what, a.StatusCode, a.Raw, left)
	}
}

// accepted asks for a code once the second is over.
func accepted(s *apptest.Stack, i int) apptest.Answer {
	s.Helper()
	apptest.Sleep(1100 * time.Millisecond)
	a := s.Ask(i, apptest.Ana)
	if a.StatusCode != http.StatusAccepted {
		s.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	return a
}

func look(s *apptest.Stack, i int) apptest.Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, apptest.Ana))
}

// Redis loses everything three times, and no answer of either replica shows it.
func TestAnswersAreTrueAfterRedisLostEverything(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(fmt.Sprintf(secondAndHour, "1h")).Start(2)
	for range 3 {
		accepted(s, 0)
	}
	s.Flush()
	hourSays(s, "a look on the other replica", look(s, 1), 2, false)
	s.Flush()
	hourSays(s, "the 4th", accepted(s, 0), 1, false)
	s.Flush()
	fifth := accepted(s, 1)
	hourSays(s, "the 5th", fifth, 0, true)
	s.Redis.Stop()
	if err := s.Redis.Start(); err != nil {
		t.Fatal(err)
	}
	s.Await("Redis", func() bool { return limiterUp(s, 0) == "1" })
	get := func() apptest.Answer { return s.Do(0, http.MethodGet, "/v1/verifications/"+fifth.ID, "") }
	hourSays(s, "GET", get(), 0, true)
	if n := len(s.RedisTTLs()); n != 2 { // of sends and of failures
		t.Errorf("Redis has %d keys", n)
	}
	hourSays(s, "GET again", get(), 0, true)
	if a := s.Ask(0, apptest.Ana); a.StatusCode != http.StatusTooManyRequests || a.RetryAfter < 3000 {
		t.Errorf("%d %s", a.StatusCode, a.Raw)
	}
}

// The same with a window that becomes longer while the replicas run, after its events were dropped.
func TestAnswersAreTrueAfterAWindowBecameLonger(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(fmt.Sprintf(secondAndHour, "3s")).Watching().Start(2)
	for range 3 {
		accepted(s, 0)
	}
	look(s, 1) // completes the bucket, for three seconds
	apptest.Sleep(3 * time.Second)
	s.Rules(fmt.Sprintf(secondAndHour, "1h"))
	s.Hangup(0, "applied")
	s.Hangup(1, "applied")
	hourSays(s, "a look on the other replica", look(s, 1), 2, false)
	hourSays(s, "the 4th", accepted(s, 0), 1, false)
	fifth := accepted(s, 1)
	hourSays(s, "the 5th", fifth, 0, true)
	hourSays(s, "GET", s.Do(0, http.MethodGet, "/v1/verifications/"+fifth.ID, ""), 0, true)
}
