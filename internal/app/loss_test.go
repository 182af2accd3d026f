package app

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

const secondAndHour = "    - {name: second, scope: recipient, limit: 1, window: 1s}\n    - {name: hour, scope: recipient, limit: 5, window: %s}\n"

// hourSays fails the test unless so much of the hour is left, and the wait is that of the hour where it is long.
func (s *stack) hourSays(what string, a answer, left int, long bool) {
	s.Helper()
	if len(a.Quota.Rules) != 2 || a.Quota.Rules[1].Remaining != left || long != (a.Quota.RetryAfter > 3000) {
		s.Errorf("%s: %d %s; want %d left", what, a.status, a.raw, left)
	}
}

// accepted asks for a code once the second is over.
func (s *stack) accepted(i int) answer {
	s.Helper()
	after(1100 * time.Millisecond)
	a := s.ask(i, ana)
	if a.status != http.StatusAccepted {
		s.Fatalf("%d %s", a.status, a.raw)
	}
	return a
}

func (s *stack) look(i int) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, ana))
}

// Redis loses everything three times, and no answer of either replica shows it.
func TestAnswersAreTrueAfterRedisLostEverything(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).policy(fmt.Sprintf(secondAndHour, "1h")).start(2)
	for range 3 {
		s.accepted(0)
	}
	s.flush()
	s.hourSays("a look on the other replica", s.look(1), 2, false)
	s.flush()
	s.hourSays("the 4th", s.accepted(0), 1, false)
	s.flush()
	fifth := s.accepted(1)
	s.hourSays("the 5th", fifth, 0, true)
	s.redis.Stop()
	if err := s.redis.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("Redis", func() bool { return s.limiterUp(0) == "1" })
	get := func() answer { return s.do(0, http.MethodGet, "/v1/verifications/"+fifth.ID, "") }
	s.hourSays("GET", get(), 0, true)
	if n := len(s.ends()); n != 2 { // of sends and of failures
		t.Errorf("Redis has %d keys", n)
	}
	s.hourSays("GET again", get(), 0, true)
	if a := s.ask(0, ana); a.status != http.StatusTooManyRequests || a.RetryAfter < 3000 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// The same with a window that becomes longer while the replicas run, after its events were dropped.
func TestAnswersAreTrueAfterAWindowBecameLonger(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).policy(fmt.Sprintf(secondAndHour, "3s")).watching().start(2)
	for range 3 {
		s.accepted(0)
	}
	s.look(1) // completes the bucket, for three seconds
	after(3 * time.Second)
	s.rules(fmt.Sprintf(secondAndHour, "1h"))
	s.hangup(0, "applied")
	s.hangup(1, "applied")
	s.hourSays("a look on the other replica", s.look(1), 2, false)
	s.hourSays("the 4th", s.accepted(0), 1, false)
	fifth := s.accepted(1)
	s.hourSays("the 5th", fifth, 0, true)
	s.hourSays("GET", s.do(0, http.MethodGet, "/v1/verifications/"+fifth.ID, ""), 0, true)
}
