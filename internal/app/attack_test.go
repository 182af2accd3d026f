package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

const (
	publicKey  = "pk_0123456789abcdefghijABCDEFGHIJ"
	anotherKey = "sk_anotherappsabcdefghijABCDEFGHI"
)

// tenants adds a browser's key to the app default, and another app with a secret key. Rules are wide: what is refused
// here is refused for another reason.
func (s *stack) tenants() *stack {
	s.Helper()
	hash := func(key string) string { h := sha256.Sum256([]byte(key)); return hex.EncodeToString(h[:]) }
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	text := "policies:\n  default:\n    - {name: hour, scope: recipient, limit: 10000, window: 1h}\napps:\n" +
		"  - {name: default, origins: [\"https://shop.example\"], keys: [{id: web, kind: public, sha256: " + hash(publicKey) + "}]}\n" +
		"  - {name: another, keys: [{id: k1, kind: secret, sha256: " + hash(anotherKey) + "}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.env["SENDCODE_CONFIG"] = file
	return s
}

func as(key string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+key)
		if key == publicKey {
			r.Header.Set("Origin", "https://shop.example")
		}
	}
}

// Knowing an address, and no more, is no hold over what is pending for it: an attacker who tries every endpoint, with
// every kind of key but the app's own secret one, reads, burns and cancels nothing.
func TestAddressAloneIsNoHold(t *testing.T) {
	onEach(t, func(s *stack) {
		s.tenants().start(1)
		ask := func(key, extra string) answer {
			return s.do(0, "POST", "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, ana, extra), as(key))
		}
		victims := []answer{ask(publicKey, ""), ask(apiKey, ""), ask(apiKey, `,"session":"victim"`)}
		for _, v := range victims {
			if v.status != http.StatusAccepted {
				s.Fatalf("%d %s", v.status, v.raw)
			}
		}
		s.awaitMail(ana, len(victims))
		known := map[string]bool{}
		for _, v := range victims {
			known[v.ID] = true
		}
		for _, key := range []string{"", "sk_wrong", publicKey, anotherKey} {
			if mine := ask(key, ""); known[mine.ID] && mine.ID != "" {
				s.Errorf("%.3s…: a request for the same address got hold of what was pending", key)
			} else if key == publicKey || key == anotherKey { // what an attacker does to their own hurts nobody
				s.do(0, "POST", "/v1/verifications/"+mine.ID+"/check", `{"code":"000000"}`, as(key))
				s.do(0, "POST", "/v1/verifications/"+mine.ID+"/cancel", "", as(key))
			}
			s.tryEverything(key, victims)
		}
		// Even the app's own secret key names only what it holds: another session's stays out of reach.
		s.do(0, "POST", "/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"session":"attacker","code":"000000"}`, ana))
		s.untouched(victims)
	})
}

// tryEverything goes through the endpoints with what an attacker has: the address and a key.
func (s *stack) tryEverything(key string, victims []answer) {
	s.Helper()
	to := fmt.Sprintf(`"channel":"email","to":%q`, ana)
	for range 6 { // more than a code has tries
		for _, path := range []string{"/v1/verifications/check", "/v1/quota", "/v1/admin/search", "/v1/admin/sends"} {
			method, body := "POST", "{"+to+"}"
			switch path {
			case "/v1/verifications/check":
				body = "{" + to + `,"code":"000000"}`
			case "/v1/admin/sends":
				method, body = "GET", ""
			}
			a := s.do(0, method, path, body, as(key))
			if a.status < 400 && !(path == "/v1/quota" && key == anotherKey) {
				s.Errorf("%.3s… %s: %d %s", key, path, a.status, a.raw)
			}
		}
		if key == publicKey {
			return // the app's own browsers know IDs; guessing one is a matter of 160 bits
		}
		for _, v := range victims { // and even the ID is nothing to another app
			for path, body := range map[string]string{"": "", "/check": `{"code":"000000"}`, "/cancel": ""} {
				method := "POST"
				if path == "" {
					method = "GET"
				}
				if a := s.do(0, method, "/v1/verifications/"+v.ID+path, body, as(key)); a.status != 401 && a.status != 404 {
					s.Errorf("%.3s… %s: %d", key, path, a.status)
				}
			}
			if a := s.do(0, "POST", "/v1/verifications", `{"verification_id":"`+v.ID+`"}`, as(key)); a.status != 401 && a.status != 404 {
				s.Errorf("%.3s… resend: %d", key, a.status)
			}
		}
	}
}

// untouched says that every victim can still be checked with all tries, and is approved by its own code.
func (s *stack) untouched(victims []answer) {
	s.Helper()
	codes := map[string]bool{}
	for _, m := range s.mails() {
		codes[s.codeIn(m)] = true
	}
	s.untouchedBy(victims, codes)
}

// untouchedBy is untouched where the victims' mails have these codes.
func (s *stack) untouchedBy(victims []answer, codes map[string]bool) {
	s.Helper()
	for _, v := range victims {
		now := s.do(0, "GET", "/v1/verifications/"+v.ID, "")
		if now.state() != "pending" || now.Send.Number != 1 || now.AttemptsRemaining == nil || *now.AttemptsRemaining != 5 {
			s.Errorf("%s", now.raw)
		}
		if c := s.check(0, v.ID, "abc"); c.status != 422 {
			s.Errorf("%d", c.status)
		}
		found := false
		for code := range codes { // five mails, five tries: the right code is among them
			if found = s.check(0, v.ID, code).Valid; found {
				break
			}
		}
		if !found {
			s.Errorf("none of %d mails has the code that is approved", len(codes))
		}
	}
}

// wireless is what came back without what differs by request: the bytes and the headers that say something.
func wireless(a answer) string {
	h := a.header.Clone()
	h.Del("Date")
	h.Del("X-Request-Id")
	return fmt.Sprint(a.status, h, string(a.raw))
}

// An unknown ID, another app's and one that can't be an ID are the same 404, byte for byte (API-7).
func TestUnknownIsUnknown(t *testing.T) {
	onEach(t, func(s *stack) {
		s.tenants().start(1)
		real := s.ask(0, ana)
		for path, body := range map[string]string{"": "", "/check": `{"code":"000000"}`, "/cancel": ""} {
			method := "POST"
			if path == "" {
				method = "GET"
			}
			get := func(id, key string) string {
				return wireless(s.do(0, method, "/v1/verifications/"+id+path, body, as(key)))
			}
			want := get("abcdefghijklmnopqrstuvwxyz234567", anotherKey)
			for _, id := range []string{real.ID, "x", "%00", "%FF"} {
				if got := get(id, anotherKey); got != want {
					s.Errorf("%s %s:\n%s\nwant\n%s", path, id, got, want)
				}
			}
		}
		resend := func(id string) string {
			return wireless(s.do(0, "POST", "/v1/verifications", `{"verification_id":"`+id+`"}`, as(anotherKey)))
		}
		if got, want := resend(real.ID), resend("abcdefghijklmnopqrstuvwxyz234567"); got != want {
			s.Errorf("resend:\n%s\nwant\n%s", got, want)
		}
		if now := s.do(0, "GET", "/v1/verifications/"+real.ID, ""); now.state() != "pending" {
			s.Errorf("%s", now.raw)
		}
	})
}
