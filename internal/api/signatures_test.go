package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/reports"
	"sendcode/internal/servertest"
	vtest "sendcode/internal/verification/verificationtest"
)

// signing is Mailgun, which signs a time and a token, on a clock that the test moves.
type signing struct {
	*vtest.Rig
	now time.Time
}

func newSigning(t *testing.T) *signing {
	s := &signing{now: time.Unix(1_800_000_000, 0)}
	s.Rig = vtest.NewRigAt(t, s.clock, nil)
	return s
}

func (s *signing) clock() time.Time { return s.now }

// replica is one of several processes behind the limiter.
func (s *signing) replica() *providerAPI {
	return providerAPIWith(s.T, reports.Auth{Scheme: reports.Mailgun, Secrets: [][]byte{[]byte(right)}},
		s.Replica(s.MailServer).Gates, s.clock)
}

// event is signed at a time, and tells of a kind.
func (s *signing) event(at time.Time, token, kind string, change ...func(string) string) string {
	stamp := fmt.Sprint(at.Unix())
	mac := hmac.New(sha256.New, []byte(right))
	mac.Write([]byte(stamp + token))
	sum := hex.EncodeToString(mac.Sum(nil))
	for _, c := range change {
		sum = c(sum)
	}
	return fmt.Sprintf(`{"signature":{"timestamp":%q,"token":%q,"signature":%q},"kind":%q,"tag":%q}`, stamp, token,
		sum, kind, eventID)
}

// A signature is good for one request, whatever the rest of the body says, on all replicas and as
// long as its time is accepted.
func TestASignatureIsGoodOnce(t *testing.T) {
	s := newSigning(t)
	one, two := s.replica(), s.replica()
	early := s.now.Add(reports.MaxAge) // signed by a clock that is ahead
	first := s.event(early, "abc", "ok")
	answer := one.post(here, "", first, http.StatusNoContent)
	if len(one.events.heard) != 1 {
		t.Fatal("the first was not heard")
	}
	stamp := fmt.Sprint(early.Unix())
	split := strings.NewReplacer(`"`+stamp+`"`, `"`+stamp[:9]+`"`, `"abc"`, `"`+stamp[9:]+`abc"`).Replace(first)
	for _, wait := range []time.Duration{0, time.Minute, 2*reports.MaxAge - time.Minute} {
		s.now = s.now.Add(wait)
		for _, x := range []*providerAPI{one, two} {
			for _, body := range []string{first, s.event(early, "abc", "spam"),
				s.event(early, "abc", "spam", strings.ToUpper)} {
				again := x.post(here, "", body, http.StatusNoContent)
				if len(x.events.heard) != 0 || !slices.Equal(x.counts, []string{"post replayed"}) {
					t.Errorf("after %v: heard %v, %v", wait, x.events.heard, x.counts)
				}
				if again.Body.String() != answer.Body.String() || len(again.Header()) != len(answer.Header()) {
					t.Errorf("the answer differs: %v and %v", again.Header(), answer.Header())
				}
			}
		}
	}
	one.post(here, "", split, http.StatusUnauthorized) // a time of nine digits is long ago
	one.post(here, "", s.event(early, "abe", "ok"), http.StatusNoContent)
	servertest.Same(t, "heard of another token at the same time", len(one.events.heard), 1)
	s.now = s.now.Add(time.Second)
	one.post(here, "", first, http.StatusUnauthorized) // too old by now
	one.post(here, "", s.event(s.now, "abd", "spam"), http.StatusNoContent)
	servertest.Same(t, "heard of another token", len(one.events.heard), 1)
}

// A request that could not be recorded may be repeated with its signature, and one that is forged
// or malformed uses none up: also while the limiter is away and the replica remembers signatures
// itself.
func TestAFailedRequestUsesNoSignature(t *testing.T) {
	for _, away := range []bool{false, true} {
		s := newSigning(t)
		if away {
			s.LoseLimiter()
		}
		x := s.replica()
		heard := func(body string, err error, status, events int) {
			t.Helper()
			x.events.err = err
			x.post(here, "", body, status)
			servertest.Same(t, "heard of "+body, len(x.events.heard), events)
		}
		body := s.event(s.now, "abc", "spam")
		heard(strings.Replace(body, `"abc"`, `"abd"`, 1), nil, http.StatusUnauthorized, 0)
		heard(body+"{}", nil, http.StatusUnauthorized, 0)
		for range 3 {
			heard(body, fault.Unavailable, http.StatusServiceUnavailable, 1)
		}
		heard(body, nil, http.StatusNoContent, 1)
		heard(body, nil, http.StatusNoContent, 0)
	}
}

// Of a hundred copies at once one is heard.
func TestCopiesAtOnce(t *testing.T) {
	s := newSigning(t)
	x := s.replica()
	body := s.event(s.now, "abc", "ok")
	var copies sync.WaitGroup
	for range 100 {
		copies.Go(func() {
			w := httptest.NewRecorder()
			x.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, here, strings.NewReader(body)))
			servertest.Same(t, "status", w.Code, http.StatusNoContent)
		})
	}
	copies.Wait()
	slices.Sort(x.counts)
	servertest.Same(t, "heard of all", len(x.events.heard), 1)
	servertest.Same(t, "counted", fmt.Sprint(slices.Compact(x.counts)), "[post delivered post replayed]")
}
