package app

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Every endpoint that the specification names, and the page, with all that can be said of an address, by everybody who is
// not the holder: what is pending for it is neither read nor burned nor canceled. An endpoint that is new is tried too.
func TestAddressAloneIsNoHoldAnywhere(t *testing.T) {
	s := embedded(t).tenants().start(1)
	ask := func(key, extra string) answer {
		return s.do(0, "POST", "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, ana, extra), as(key))
	}
	victims := []answer{ask(publicKey, ""), ask(apiKey, ""), ask(apiKey, `,"session":"victim"`)}
	codes := map[string]bool{}
	for _, m := range s.awaitMail(ana, len(victims)) {
		codes[s.codeIn(m)] = true
	}
	doc, err := openapi3.NewLoader().LoadFromData(s.do(0, "GET", "/openapi.yaml", "").raw)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, item := range doc.Paths.Map() {
		target := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
		for method, op := range item.Operations() {
			for _, key := range []string{"", "sk_wrong", publicKey, anotherKey} {
				tried++
				a := s.do(0, method, target, aboutAna(op), as(key))
				if a.status >= 500 {
					t.Errorf("%s %s by %.3s…: %d %s", method, target, key, a.status, a.raw)
				}
				for _, v := range victims {
					if strings.Contains(string(a.raw)+fmt.Sprint(a.header), v.ID) {
						t.Errorf("%s %s by %.3s… tells the ID: %s", method, target, key, a.raw)
					}
				}
			}
		}
	}
	if tried < 4*10 {
		t.Errorf("only %d requests were tried", tried)
	}
	s.strangerAtThePage(victims)
	s.untouchedBy(victims, codes)
}

// aboutAna is a body with every field that somebody who knows the address can fill in.
func aboutAna(op *openapi3.Operation) string {
	if op.RequestBody == nil {
		return ""
	}
	known := map[string]string{"channel": "email", "to": ana, "purpose": "default", "code": "000000", "reason": "because"}
	var fields []string
	for name := range op.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties {
		if value, ok := known[name]; ok {
			fields = append(fields, fmt.Sprintf("%q:%q", name, value))
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// strangerAtThePage posts every form of the page with the address and no cookie.
func (s *stack) strangerAtThePage(victims []answer) {
	s.Helper()
	form := func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, act := range []string{"check", "use", "again", "send", "cancel"} {
		body := url.Values{"act": {act}, "to": {ana}, "code": {"000000"}, "of": {""}, "sure": {"example.com"}, "id": {victims[0].ID}}
		a := s.do(0, "POST", "/", body.Encode(), form)
		if strings.Contains(string(a.raw)+fmt.Sprint(a.header), victims[0].ID) {
			s.Errorf("the page tells the ID after %s: %s", act, a.raw)
		}
	}
}

// What a browser is answered tells nothing about whether an address is known: one that this app and another have sent to and
// that was approved there, and one that nobody ever saw, get the same answer but for its own id and times, and what is left of the address's quota, which its holders share (SEC-19).
func TestAnswersTellNothingOfAnAddress(t *testing.T) {
	s := embedded(t).tenants().start(1)
	for _, key := range []string{anotherKey, apiKey} {
		known := s.do(0, "POST", "/v1/verifications", `{"channel":"email","to":"`+ana+`"}`, as(key))
		s.do(0, "POST", "/v1/verifications/"+known.ID+"/check", `{"code":"000000"}`, as(key))
	}
	for _, m := range s.awaitMail(ana, 2) {
		s.do(0, "POST", "/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, ana, s.codeIn(m)), as(anotherKey))
	}
	differs := regexp.MustCompile(`"(id|support|created_at|expires_at|retry_at)":"[^"]*"|"(remaining|reset_after|expires_in)":\d+|"(status)":"(?:queued|sending|sent)"`)
	story := func(to string) string {
		a := s.do(0, "POST", "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, as(publicKey))
		s.awaitState(a.ID, "sent")
		b := s.do(0, "GET", "/v1/verifications/"+a.ID, "", as(publicKey))
		c := s.do(0, "POST", "/v1/verifications/"+a.ID+"/check", `{"code":"000000"}`, as(publicKey))
		d := s.do(0, "POST", "/v1/verifications", `{"verification_id":"`+a.ID+`"}`, as(publicKey))
		e := s.do(0, "POST", "/v1/verifications/"+a.ID+"/cancel", "", as(publicKey))
		var all []string
		for _, each := range []answer{a, b, c, d, e} {
			for _, name := range []string{"Date", "X-Request-Id", "Location", "Content-Length", "Ratelimit"} {
				each.header.Del(name)
			}
			all = append(all, fmt.Sprint(each.status, each.header), differs.ReplaceAllString(string(each.raw), "$1$2$3"))
		}
		return strings.Join(all, "\n")
	}
	if known, unknown := story(ana), story("anton.never.seen@example.com"); known != unknown {
		t.Errorf("of a known address:\n%s\nof one that nobody saw:\n%s", known, unknown)
	}
}

// awaitState waits until the newest send of a verification is in a state.
func (s *stack) awaitState(id, state string) {
	s.Helper()
	s.await("a send that is "+state, func() bool {
		return s.do(0, "GET", "/v1/verifications/"+id, "").Send.Status == state
	})
}
