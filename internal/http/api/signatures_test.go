package api_test

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

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/kit/servertest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// signing makes requests as Mailgun does, whose signature covers only a time and a token.
type signing struct{ *vtest.Rig }

// replica returns one of several processes that share a limiter.
func (s signing) replica() *providerAPI {
	return providerAPIWith(s.T, feedback.Auth{Scheme: feedback.SchemeMailgun, Secrets: [][]byte{[]byte(right)}},
		s.Replica(s.MailServer).Gates.TakeOrLocal, nil, nil)
}

// event returns an event of the given kind that was signed at the given time.
func (s signing) event(at time.Time, token, kind string, change ...func(string) string) string {
	stamp := fmt.Sprint(at.Unix())
	mac := hmac.New(sha256.New, []byte(right))
	mac.Write([]byte(stamp + token))
	sum := hex.EncodeToString(mac.Sum(nil))
	for _, c := range change {
		sum = c(sum)
	}
	return fmt.Sprintf(`{"signature":{"timestamp":%q,"token":%q,"signature":%q},"kind":%q,"tag":%q}`, stamp, token, sum, kind, eventID)
}

// A signature is accepted with only one body, on all replicas, and only as long as its time is
// accepted. A repetition with the same body is recorded again, since the process may have been
// killed during the first request.
func TestSignatureIsAcceptedOnce(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		s := signing{r}
		one, two := s.replica(), s.replica()
		early := time.Now().Add(feedback.MaxAge) // signed by a clock that is ahead
		first := s.event(early, "abc", "ok")
		answer := one.post(here, "", first, http.StatusOK)
		if len(one.events.recorded) != 1 {
			s.Fatal("the first was not heard")
		}
		stamp := fmt.Sprint(early.Unix())
		last := len(stamp) - 1
		split := strings.NewReplacer(`"`+stamp+`"`, `"`+stamp[:last]+`"`, `"abc"`, `"`+stamp[last:]+`abc"`).Replace(first)
		for _, wait := range []time.Duration{0, time.Minute, feedback.MaxMailgunAge + feedback.MaxAge - time.Minute} {
			s.Sleep(wait)
			for _, x := range []*providerAPI{one, two} {
				for i, body := range []string{s.event(early, "abc", "spam"), s.event(early, "abc", "spam", strings.ToUpper), first} {
					again := x.post(here, "", body, http.StatusOK)
					if len(x.events.recorded) != i/2 || fmt.Sprint(x.counts) != [...]string{"[post replayed]", "[post replayed]", "[post delivered]"}[i] {
						s.Errorf("after %v: heard %v, %v", wait, x.events.recorded, x.counts)
					}
					if again.Body.String() != answer.Body.String() || len(again.Header()) != len(answer.Header()) {
						s.Errorf("the answer differs: %v and %v", again.Header(), answer.Header())
					}
				}
			}
		}
		one.post(here, "", split, http.StatusUnauthorized) // without its last digit, the timestamp is decades old
		one.post(here, "", s.event(early, "abe", "ok"), http.StatusOK)
		servertest.Same(s, "heard of another token at the same time", len(one.events.recorded), 1)
		s.Sleep(time.Second)
		one.post(here, "", first, http.StatusUnauthorized) // too old by now
		one.post(here, "", s.event(time.Now(), "abd", "spam"), http.StatusOK)
		servertest.Same(s, "heard of another token", len(one.events.recorded), 1)
	})
}

// If the events of a request could not be recorded, the request may be repeated with its signature.
// A forged or malformed request uses up no signature, even while the limiter is unavailable and the
// replica itself remembers signatures.
func TestSignatureOfAFailedRequestIsNotUsed(t *testing.T) {
	for _, away := range []bool{false, true} {
		vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
			if away {
				r.LoseLimiter()
			}
			s := signing{r}
			x := s.replica()
			post := func(body string, err error, status, events int) {
				s.Helper()
				x.events.err = err
				x.post(here, "", body, status)
				servertest.Same(s, "heard of "+body, len(x.events.recorded), events)
			}
			body := s.event(time.Now(), "abc", "spam")
			post(strings.Replace(body, `"abc"`, `"abd"`, 1), nil, http.StatusUnauthorized, 0)
			post(body+"{}", nil, http.StatusUnauthorized, 0)
			for range 3 {
				post(body, fault.Unavailable, http.StatusServiceUnavailable, 1)
			}
			r.Sleep(7*time.Hour + 30*time.Minute) // Mailgun repeats a request for 8 hours
			post(body, nil, http.StatusOK, 1)
			post(body+" ", nil, http.StatusOK, 0)
		})
	}
}

// If a hundred bodies with the same signature arrive at once, only one of them is accepted.
func TestSignatureOfConcurrentCopiesIsAcceptedOnce(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		s := signing{r}
		x := s.replica()
		body := s.event(time.Now(), "abc", "ok")
		var copies sync.WaitGroup
		for i := range 100 {
			copies.Go(func() {
				w := httptest.NewRecorder()
				x.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, here, strings.NewReader(body+strings.Repeat(" ", i))))
				servertest.Same(s, "status", w.Code, http.StatusOK)
			})
		}
		copies.Wait()
		slices.Sort(x.counts)
		servertest.Same(s, "heard of all", len(x.events.recorded), 1)
		servertest.Same(s, "counted", fmt.Sprint(slices.Compact(x.counts)), "[post delivered post replayed]")
	})
}
