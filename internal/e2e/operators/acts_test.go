package operators

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// What an erased person leaves in all that is kept: nothing but the hash, and a full quota.
func TestEraseOnRealParts(t *testing.T) {
	t.Parallel()
	const person = "quentin.unusual@unusual.example"
	s := apptest.OnRealParts(t).Start(2)
	first := s.Do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+person+`","reference":"order of quentin"}`)
	s.AwaitMail(person, 1)
	s.Ask(1, person)
	if a := s.ByAdmin(0, "/v1/admin/sends/"+first.Send.ID+"/reveal", `{"reason":"ticket 7"}`); a.StatusCode != http.StatusOK || !strings.Contains(string(a.Raw), person) {
		t.Fatalf("%d", a.StatusCode)
	}
	s.Await("the other replica's refusal", func() bool { return strings.Contains(s.Postgres.Dump(t), "refused\t") })
	if !strings.Contains(s.Postgres.Dump(t), "q•••") {
		t.Fatal("the search finds nothing")
	}
	if a := s.ByAdmin(1, "/v1/admin/erase", `{"channel":"email","to":"`+person+`","reason":"letter of 3 March"}`); a.StatusCode != http.StatusNoContent {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	dump := s.Postgres.Dump(t)
	for _, trace := range []string{"quentin", "unusual.example", "q•••", "127.0.0.0"} {
		if strings.Contains(dump, trace) {
			t.Errorf("%q is in the database", trace)
		}
	}
	if a := s.Ask(0, person); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("being erased freed quota: %d", a.StatusCode)
	}
}
