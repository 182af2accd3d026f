package clients

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// What a browser is answered tells nothing about whether an address is known: one that this app and another have sent to and
// that was approved there, and one that was never seen, get the same answer but for its own id and times, and what is left of the address's quota, which its holders share (SEC-19).
func TestAnswersTellNothingOfAnAddress(t *testing.T) {
	s := apptest.Embedded(t).Tenants().Start(1)
	for _, key := range []string{apptest.AnotherKey, apptest.APIKey} {
		known := s.Do(0, "POST", "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`"}`, apptest.As(key))
		s.Do(0, "POST", "/v1/verifications/"+known.ID+"/check", `{"code":"000000"}`, apptest.As(key))
	}
	for _, m := range s.AwaitMail(apptest.Ana, 2) {
		s.Do(0, "POST", "/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, apptest.Ana, s.CodeIn(m)), apptest.As(apptest.AnotherKey))
	}
	differs := regexp.MustCompile(`"(id|support|created_at|expires_at|retry_at)":"[^"]*"|"(remaining|reset_after|expires_in)":\d+|"(status)":"(?:queued|sending|sent)"`)
	story := func(to string) string {
		a := s.Do(0, "POST", "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, apptest.As(apptest.PublicKey))
		awaitState(s, a.ID, "sent")
		b := s.Do(0, "GET", "/v1/verifications/"+a.ID, "", apptest.As(apptest.PublicKey))
		c := s.Do(0, "POST", "/v1/verifications/"+a.ID+"/check", `{"code":"000000"}`, apptest.As(apptest.PublicKey))
		d := s.Do(0, "POST", "/v1/verifications", `{"verification_id":"`+a.ID+`"}`, apptest.As(apptest.PublicKey))
		e := s.Do(0, "POST", "/v1/verifications/"+a.ID+"/cancel", "", apptest.As(apptest.PublicKey))
		var all []string
		for _, each := range []apptest.Answer{a, b, c, d, e} {
			for _, name := range []string{"Date", "X-Request-Id", "Location", "Content-Length", "Ratelimit"} {
				each.Header.Del(name)
			}
			all = append(all, fmt.Sprint(each.StatusCode, each.Header), differs.ReplaceAllString(string(each.Raw), "$1$2$3"))
		}
		return strings.Join(all, "\n")
	}
	if known, unknown := story(apptest.Ana), story("anton.never.seen@example.com"); known != unknown {
		t.Errorf("of a known address:\n%s\nof one that was never seen:\n%s", known, unknown)
	}
}

// awaitState waits until the newest send of a verification is in a state.
func awaitState(s *apptest.Stack, id, state string) {
	s.Helper()
	s.Await("a send that is "+state, func() bool {
		return s.Do(0, "GET", "/v1/verifications/"+id, "").Send.Status == state
	})
}
