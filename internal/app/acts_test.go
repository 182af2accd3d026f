package app

import (
	"net/http"
	"strings"
	"testing"
)

func (s *stack) byAdmin(i int, path, body string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, path, body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
}

// One replica resets a quota; in Redis, in Postgres and in what the other one remembers it is gone.
func TestResetOnRealParts(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).start(2)
	for i, want := range []int{http.StatusAccepted, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		if a := s.ask(i%2, ana); a.status != want {
			t.Fatalf("request %d: %d", i, a.status)
		}
	}
	if a := s.byAdmin(0, "/v1/admin/quota/reset", `{"channel":"email","to":"`+ana+`","reason":"ticket 7"}`); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	s.await("the other replica to let them in", func() bool { return s.ask(1, ana).status == http.StatusAccepted })
	if n := s.burst(20, ana); n != 0 { // it counts again, everywhere
		t.Errorf("%d more let in", n)
	}
	s.awaitMail(ana, 2)
}

// What an erased person leaves in all that is kept: nothing but the hash, and a full quota.
func TestEraseOnRealParts(t *testing.T) {
	t.Parallel()
	const person = "quentin.unusual@unusual.example"
	s := onRealParts(t).start(2)
	first := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+person+`","reference":"order of quentin"}`)
	s.awaitMail(person, 1)
	s.ask(1, person)
	if a := s.byAdmin(0, "/v1/admin/sends/"+first.Send.ID+"/reveal", `{"reason":"ticket 7"}`); a.status != http.StatusOK || !strings.Contains(string(a.raw), person) {
		t.Fatalf("%d", a.status)
	}
	s.await("the other replica's refusal", func() bool { return strings.Contains(s.postgres.Dump(t), "refused\t") })
	if !strings.Contains(s.postgres.Dump(t), "q•••") {
		t.Fatal("the search finds nothing")
	}
	if a := s.byAdmin(1, "/v1/admin/erase", `{"channel":"email","to":"`+person+`","reason":"letter of 3 March"}`); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	dump := s.postgres.Dump(t)
	for _, trace := range []string{"quentin", "unusual.example", "q•••", "127.0.0.0"} {
		if strings.Contains(dump, trace) {
			t.Errorf("%q is in the database", trace)
		}
	}
	if a := s.ask(0, person); a.status != http.StatusTooManyRequests {
		t.Errorf("being erased freed quota: %d", a.status)
	}
}
