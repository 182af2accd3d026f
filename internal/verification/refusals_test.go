package verification

import (
	"testing"
	"time"

	"sendcode/internal/audit"
)

// Refusals are one row until the deadline that was told, but for ten minutes at the most.
func TestRefusalsShareARowUntilTheirDeadline(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name        string
		told, later time.Duration
		same        bool
	}{
		{"before the deadline", time.Minute, time.Minute - 1, true},
		{"at the deadline", time.Minute, time.Minute, false},
		{"a day's rule, nine minutes later", 24 * time.Hour, maxOpen - 1, true},
		{"a day's rule, ten minutes later", 24 * time.Hour, maxOpen, false},
	} {
		r := newRefusals()
		row := audit.Send{App: "shop", BlockedBy: "rule", RetryAfter: c.told, Count: 1}
		r.add(row, start)
		first, _ := r.take(start)
		r.add(row, start.Add(c.later))
		second, _ := r.take(start.Add(c.later))
		if len(first) != 1 || len(second) != 1 || (first[0].ID == second[0].ID) != c.same {
			t.Errorf("%s: %+v, %+v", c.name, first, second)
		}
	}
}

func TestRefusalsAreBoundedAndCounted(t *testing.T) {
	r := newRefusals()
	for i := range maxPending + 7 {
		r.add(audit.Send{App: "shop", Recipient: [16]byte{byte(i), byte(i >> 8), byte(i >> 16)}, RetryAfter: time.Minute, Count: 1}, time.Unix(0, 0))
	}
	batch, lost := r.take(time.Unix(0, 0))
	if len(batch) != maxPending || lost != 7 {
		t.Errorf("%d rows, %d lost", len(batch), lost)
	}
}
