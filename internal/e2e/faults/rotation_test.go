package faults

import (
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

// A key is changed under running replicas, as docs/operations.md says, and every code can be checked on every replica all the
// way; only where a key is taken out too early its codes cannot be checked, which is an outage and no wrong code.
func TestRingChangesWithoutAPause(t *testing.T) {
	const old, young = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=", "k2:rmUS1C9QAHeCKaxqZKuUCM56wDoBSPDZMIFPt9cQR6A="
	s := apptest.OnRealParts(t)
	rings := []string{old, old + "," + young, young + "," + old}
	for _, ring := range rings { // a replica in each state, all at once
		s.Env["SENDCODE_SECRET_KEYS"] = ring
		s.Start(1)
	}
	tos := []string{"a@example.com", "b@example.com", "c@example.com"}
	for from, to := range tos {
		for at := range rings {
			if from == 2 && at == 0 {
				continue // who sends with the new key has waited until every replica knows it
			}
			person := string('x'+rune(at)) + to
			a := s.Ask(from, person)
			code := s.CodeIn(s.AwaitMail(person, 1)[0])
			if c := s.Check(at, a.ID, code); !c.Valid {
				t.Errorf("sent with ring %d, checked with ring %d: %s", from, at, c.Raw)
			}
		}
	}
	a := s.Ask(0, "late@example.com")
	code := s.CodeIn(s.AwaitMail("late@example.com", 1)[0])
	s.Env["SENDCODE_SECRET_KEYS"] = young
	s.Start(1)
	if c := s.Check(3, a.ID, code); c.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("with the old key gone: %d %s", c.StatusCode, c.Raw)
	}
	if c := s.Check(2, a.ID, code); !c.Valid {
		t.Errorf("where it is still known: %s", c.Raw)
	}
}
