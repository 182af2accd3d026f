package clients

import (
	"fmt"
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

// Knowing an address, and no more, is no hold over what is pending for it: an attacker who tries every endpoint, with
// every kind of key but the app's own secret one, reads, burns and cancels nothing.
func TestAddressAloneIsNoHold(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Tenants().Start(1)
		ask := func(key, extra string) apptest.Answer {
			return s.Do(0, "POST", "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, apptest.Ana, extra), apptest.As(key))
		}
		victims := []apptest.Answer{ask(apptest.PublicKey, ""), ask(apptest.APIKey, ""), ask(apptest.APIKey, `,"session":"victim"`)}
		for _, v := range victims {
			if v.StatusCode != http.StatusAccepted {
				s.Fatalf("%d %s", v.StatusCode, v.Raw)
			}
		}
		s.AwaitMail(apptest.Ana, len(victims))
		known := map[string]bool{}
		for _, v := range victims {
			known[v.ID] = true
		}
		for _, key := range []string{"", "sk_wrong", apptest.PublicKey, apptest.AnotherKey} {
			if mine := ask(key, ""); known[mine.ID] && mine.ID != "" {
				s.Errorf("%.3s…: a request for the same address got hold of what was pending", key)
			} else if key == apptest.PublicKey || key == apptest.AnotherKey { // what an attacker does to their own hurts no one
				s.Do(0, "POST", "/v1/verifications/"+mine.ID+"/check", `{"code":"000000"}`, apptest.As(key))
				s.Do(0, "POST", "/v1/verifications/"+mine.ID+"/cancel", "", apptest.As(key))
			}
			tryEverything(s, key, victims)
		}
		// Even the app's own secret key names only what it holds: another session's stays out of reach.
		s.Do(0, "POST", "/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"session":"attacker","code":"000000"}`, apptest.Ana))
		untouched(s, victims)
	})
}

// tryEverything goes through the endpoints with what an attacker has: the address and a key.
func tryEverything(s *apptest.Stack, key string, victims []apptest.Answer) {
	s.Helper()
	to := fmt.Sprintf(`"channel":"email","to":%q`, apptest.Ana)
	for range 6 { // more than a code has tries
		for _, path := range []string{"/v1/verifications/check", "/v1/quota", "/v1/admin/search", "/v1/admin/sends"} {
			method, body := "POST", "{"+to+"}"
			switch path {
			case "/v1/verifications/check":
				body = "{" + to + `,"code":"000000"}`
			case "/v1/admin/sends":
				method, body = "GET", ""
			}
			a := s.Do(0, method, path, body, apptest.As(key))
			if a.StatusCode < 400 && !(path == "/v1/quota" && key == apptest.AnotherKey) {
				s.Errorf("%.3s… %s: %d %s", key, path, a.StatusCode, a.Raw)
			}
		}
		if key == apptest.PublicKey {
			return // the app's own browsers know IDs; guessing one is a matter of 160 bits
		}
		for _, v := range victims { // and even the ID is nothing to another app
			for path, body := range map[string]string{"": "", "/check": `{"code":"000000"}`, "/cancel": ""} {
				method := "POST"
				if path == "" {
					method = "GET"
				}
				if a := s.Do(0, method, "/v1/verifications/"+v.ID+path, body, apptest.As(key)); a.StatusCode != 401 && a.StatusCode != 404 {
					s.Errorf("%.3s… %s: %d", key, path, a.StatusCode)
				}
			}
			if a := s.Do(0, "POST", "/v1/verifications", `{"verification_id":"`+v.ID+`"}`, apptest.As(key)); a.StatusCode != 401 && a.StatusCode != 404 {
				s.Errorf("%.3s… resend: %d", key, a.StatusCode)
			}
		}
	}
}

// untouched says that every victim can still be checked with all tries, and is approved by its own code.
func untouched(s *apptest.Stack, victims []apptest.Answer) {
	s.Helper()
	codes := map[string]bool{}
	for _, m := range s.Mails() {
		codes[s.CodeIn(m)] = true
	}
	for _, v := range victims {
		now := s.Do(0, "GET", "/v1/verifications/"+v.ID, "")
		if now.State() != "pending" || now.Send.Number != 1 || now.AttemptsRemaining == nil || *now.AttemptsRemaining != 5 {
			s.Errorf("%s", now.Raw)
		}
		if c := s.Check(0, v.ID, "abc"); c.StatusCode != 422 {
			s.Errorf("%d", c.StatusCode)
		}
		found := false
		for code := range codes { // five mails, five tries: the right code is among them
			if found = s.Check(0, v.ID, code).Valid; found {
				break
			}
		}
		if !found {
			s.Errorf("none of %d mails has the code that is approved", len(codes))
		}
	}
}

// wireless is what came back without what differs by request: the bytes and the headers that say something.
func wireless(a apptest.Answer) string {
	h := a.Header.Clone()
	h.Del("Date")
	h.Del("X-Request-Id")
	return fmt.Sprint(a.StatusCode, h, string(a.Raw))
}

// An unknown ID, another app's and one that can't be an ID are the same 404, byte for byte (API-7).
func TestUnknownIsUnknown(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Tenants().Start(1)
		real := s.Ask(0, apptest.Ana)
		for path, body := range map[string]string{"": "", "/check": `{"code":"000000"}`, "/cancel": ""} {
			method := "POST"
			if path == "" {
				method = "GET"
			}
			get := func(id, key string) string {
				return wireless(s.Do(0, method, "/v1/verifications/"+id+path, body, apptest.As(key)))
			}
			want := get("abcdefghijklmnopqrstuvwxyz234567", apptest.AnotherKey)
			for _, id := range []string{real.ID, "x", "%00", "%FF"} {
				if got := get(id, apptest.AnotherKey); got != want {
					s.Errorf("%s %s:\n%s\nwant\n%s", path, id, got, want)
				}
			}
		}
		resend := func(id string) string {
			return wireless(s.Do(0, "POST", "/v1/verifications", `{"verification_id":"`+id+`"}`, apptest.As(apptest.AnotherKey)))
		}
		if got, want := resend(real.ID), resend("abcdefghijklmnopqrstuvwxyz234567"); got != want {
			s.Errorf("resend:\n%s\nwant\n%s", got, want)
		}
		if now := s.Do(0, "GET", "/v1/verifications/"+real.ID, ""); now.State() != "pending" {
			s.Errorf("%s", now.Raw)
		}
	})
}
