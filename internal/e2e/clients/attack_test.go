package clients

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// An attacker who knows an address, and no more, has no hold over what is pending for it: with every endpoint and every kind of key but
// the app's own secret one they read, burn and cancel nothing.
func TestAddressAloneIsNoHold(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Tenants().Start(1)
	ask := func(key, extra string) apptest.Answer {
		return s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, apptest.Ana, extra), apptest.As(key))
	}
	known := map[string]bool{}
	victims := []apptest.Answer{ask(apptest.PublicKey, ""), ask(apptest.APIKey, ""), ask(apptest.APIKey, `,"session":"victim"`)}
	for _, v := range victims {
		if known[v.ID] = true; v.StatusCode != http.StatusAccepted {
			t.Fatalf("%d %s", v.StatusCode, v.Raw)
		}
	}
	s.AwaitMail(apptest.Ana, len(victims))
	for _, key := range []string{"", "sk_wrong", apptest.PublicKey, apptest.AnotherKey} {
		if mine := ask(key, ""); known[mine.ID] && mine.ID != "" {
			t.Errorf("%.3s…: a request for the same address got hold of what was pending", key)
		} else if key == apptest.PublicKey || key == apptest.AnotherKey { // what an attacker does to their own hurts no one
			s.Post("/v1/verifications/"+mine.ID+"/check", `{"code":"000000"}`, apptest.As(key))
			s.Post("/v1/verifications/"+mine.ID+"/cancel", "", apptest.As(key))
		}
		tryEverything(s, key, victims)
	}
	// Even the app's own secret key names only what it holds: another session's stays out of reach.
	s.Post("/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"session":"attacker","code":"000000"}`, apptest.Ana))
	codes := map[string]bool{}
	for _, m := range s.Mails() {
		codes[s.CodeIn(m)] = true
	}
	for _, v := range victims {
		if now := s.Look(v.ID); now.State() != "pending" || now.Send.Number != 1 || now.AttemptsRemaining == nil || *now.AttemptsRemaining != 5 {
			t.Errorf("%s", now.Raw)
		}
		found := false
		for code := range codes { // five mails, five tries: the right code is among them
			found = found || s.Check(0, v.ID, code).Valid
		}
		if !found {
			t.Errorf("none of %d mails has the code that is approved", len(codes))
		}
	}
}

// tryEverything goes through the endpoints with what an attacker has: the address and a key.
func tryEverything(s *apptest.Stack, key string, victims []apptest.Answer) {
	s.Helper()
	to := fmt.Sprintf(`"channel":"email","to":%q`, apptest.Ana)
	for range 6 { // more than a code has tries
		for path, body := range map[string]string{
			"/v1/verifications/check": "{" + to + `,"code":"000000"}`, "/v1/quota": "{" + to + "}", "/v1/admin/search": "{" + to + "}",
		} {
			a := s.Post(path, body, apptest.As(key))
			if a.StatusCode < 400 && !(path == "/v1/quota" && key == apptest.AnotherKey) {
				s.Errorf("%.3s… %s: %d %s", key, path, a.StatusCode, a.Raw)
			}
		}
		if key == apptest.PublicKey {
			return // the app's own browsers know IDs; guessing one is a matter of 160 bits
		}
		for _, v := range victims { // and even the ID is nothing to another app
			path := "/v1/verifications/" + v.ID
			for what, a := range map[string]apptest.Answer{
				"a look": s.Get(path, apptest.As(key)), "a check": s.Post(path+"/check", `{"code":"000000"}`, apptest.As(key)),
				"cancel": s.Post(path+"/cancel", "", apptest.As(key)),
				"resend": s.Post("/v1/verifications", `{"verification_id":"`+v.ID+`"}`, apptest.As(key)),
			} {
				if a.StatusCode != 401 && a.StatusCode != 404 {
					s.Errorf("%.3s… %s: %d", key, what, a.StatusCode)
				}
			}
		}
	}
}

// same is an answer without what differs by request: its bytes and the headers that say something.
func same(a apptest.Answer) string {
	for _, name := range []string{"Date", "X-Request-Id", "Location", "Content-Length", "Ratelimit"} {
		a.Header.Del(name)
	}
	return fmt.Sprint(a.StatusCode, a.Header, string(a.Raw))
}

// Answers to a browser tell nothing about whether an address is known: for one that this app and another have sent to, and that was
// approved there, they are those for one that was never seen, but for ID, times, and what is left of the address's quota, which its
// holders share. And another app's ID and one that cannot be an ID are answered byte for byte as an unknown one.
func TestAnswersTellNothingOfAnAddress(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Tenants().Start(1)
	for _, key := range []string{apptest.AnotherKey, apptest.APIKey} {
		known := s.Ask(0, apptest.Ana, apptest.As(key))
		s.Post("/v1/verifications/"+known.ID+"/check", `{"code":"000000"}`, apptest.As(key))
	}
	for _, m := range s.AwaitMail(apptest.Ana, 2) {
		s.Post("/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, apptest.Ana, s.CodeIn(m)), apptest.As(apptest.AnotherKey))
	}
	differs := regexp.MustCompile(`"(id|support|created_at|expires_at|retry_at)":"[^"]*"|"(remaining|reset_after|expires_in)":\d+|"(status)":"(?:queued|sending|sent)"`)
	browser := apptest.As(apptest.PublicKey)
	story := func(to string) (all string) {
		a := s.Ask(0, to, browser)
		s.AwaitState(a.ID, "sent")
		path := "/v1/verifications/" + a.ID
		for _, each := range []apptest.Answer{
			a, s.Get(path, browser), s.Post(path+"/check", `{"code":"000000"}`, browser),
			s.Post("/v1/verifications", `{"verification_id":"`+a.ID+`"}`, browser), s.Post(path+"/cancel", "", browser),
		} {
			all += differs.ReplaceAllString(same(each), "$1$2$3") + "\n"
		}
		return all
	}
	if known, unknown := story(apptest.Ana), story("anton.never.seen@example.com"); known != unknown {
		t.Errorf("of a known address:\n%s\nof one that was never seen:\n%s", known, unknown)
	}
	real := s.Ask(0, apptest.Ana) // of a back end
	unknown := strings.Repeat("a", len(real.ID))
	for _, key := range []string{apptest.AnotherKey, apptest.PublicKey} {
		as := apptest.As(key)
		answers := func(id string) string {
			path := "/v1/verifications/" + id
			return same(s.Get(path, as)) + same(s.Post(path+"/check", `{"code":"000000"}`, as)) + same(s.Post(path+"/cancel", "", as))
		}
		resend := func(id string) string {
			return same(s.Post("/v1/verifications", `{"verification_id":"`+id+`"}`, as))
		}
		for _, id := range []string{real.ID, "x", "%00", "%FF"} {
			if got, want := answers(id), answers(unknown); got != want {
				t.Errorf("%.3s… %s:\n%s\nwant\n%s", key, id, got, want)
			}
		}
		if got, want := resend(real.ID), resend(unknown); got != want || strings.Count(answers(unknown)+got, "not-found") != 4 {
			t.Errorf("%.3s… resend:\n%s\nwant\n%s", key, got, want)
		}
	}
}
