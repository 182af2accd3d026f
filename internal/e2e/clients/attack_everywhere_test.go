package clients

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sendcode/internal/app/apptest"
)

// Every endpoint that the specification names, and the page, with all that can be said of an address, by everybody who is
// not the holder: what is pending for it is neither read nor burned nor canceled. An endpoint that is new is tried too.
func TestAddressAloneIsNoHoldAnywhere(t *testing.T) {
	s := apptest.Embedded(t).Tenants().Start(1)
	ask := func(key, extra string) apptest.Answer {
		return s.Do(0, "POST", "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, apptest.Ana, extra), apptest.As(key))
	}
	victims := []apptest.Answer{ask(apptest.PublicKey, ""), ask(apptest.APIKey, ""), ask(apptest.APIKey, `,"session":"victim"`)}
	codes := map[string]bool{}
	for _, m := range s.AwaitMail(apptest.Ana, len(victims)) {
		codes[s.CodeIn(m)] = true
	}
	doc, err := openapi3.NewLoader().LoadFromData(s.Do(0, "GET", "/openapi.yaml", "").Raw)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, item := range doc.Paths.Map() {
		target := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
		for method, op := range item.Operations() {
			for _, key := range []string{"", "sk_wrong", apptest.PublicKey, apptest.AnotherKey} {
				tried++
				a := s.Do(0, method, target, aboutAna(op), apptest.As(key))
				if a.StatusCode >= 500 {
					t.Errorf("%s %s by %.3s…: %d %s", method, target, key, a.StatusCode, a.Raw)
				}
				for _, v := range victims {
					if strings.Contains(string(a.Raw)+fmt.Sprint(a.Header), v.ID) {
						t.Errorf("%s %s by %.3s… tells the ID: %s", method, target, key, a.Raw)
					}
				}
			}
		}
	}
	if tried < 4*10 {
		t.Errorf("only %d requests were tried", tried)
	}
	strangerAtThePage(s, victims)
	untouchedBy(s, victims, codes)
}

// aboutAna is a body with every field that a person who knows the address can fill in.
func aboutAna(op *openapi3.Operation) string {
	if op.RequestBody == nil {
		return ""
	}
	known := map[string]string{"channel": "email", "to": apptest.Ana, "purpose": "default", "code": "000000", "reason": "because"}
	var fields []string
	for name := range op.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties {
		if value, ok := known[name]; ok {
			fields = append(fields, fmt.Sprintf("%q:%q", name, value))
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// strangerAtThePage posts every form of the page with the address and no cookie.
func strangerAtThePage(s *apptest.Stack, victims []apptest.Answer) {
	s.Helper()
	form := func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, act := range []string{"check", "use", "again", "send", "cancel"} {
		body := url.Values{"act": {act}, "to": {apptest.Ana}, "code": {"000000"}, "of": {""}, "sure": {"example.com"}, "id": {victims[0].ID}}
		a := s.Do(0, "POST", "/", body.Encode(), form)
		if strings.Contains(string(a.Raw)+fmt.Sprint(a.Header), victims[0].ID) {
			s.Errorf("the page tells the ID after %s: %s", act, a.Raw)
		}
	}
}

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
