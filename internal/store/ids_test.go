package store

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestIDs(t *testing.T) {
	var g IDGenerator
	at := time.Date(2030, 3, 1, 12, 0, 0, 123457000, time.UTC)
	var last uuid.UUID
	for i := range 10_000 {
		id, err := g.New(at.Add(time.Duration(i/100) * 100 * time.Nanosecond))
		if err != nil {
			t.Fatal(err)
		}
		if id.String() <= last.String() || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("%v after %v", id, last)
		}
		last = id
	}
	if ahead := int64(binary.BigEndian.Uint64(last[:8])>>16) - at.UnixMilli(); ahead > 5 {
		t.Errorf("%d ms ahead of its clock", ahead)
	}
	id, err := g.New(at.Add(-time.Hour)) // the clock was set back to the right time
	if err != nil {
		t.Fatal(err)
	}
	if low, high := LowestID(at.Add(-time.Hour)), LowestID(at.Add(-time.Hour+time.Millisecond)); id.String() < low.String() ||
		id.String() >= high.String() {
		t.Errorf("%v goes on with the wrong hour", id)
	}
}

// A verification's ID begins with its week, so IDs sort by week.
func TestVerificationIDsSortByWeek(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	week := func(at time.Time) string { return NewVerificationID(at)[:3] }
	if before := week(monday.Add(-time.Nanosecond)); before != "2so" || week(monday) != "2sp" || week(monday.Add(Week-1)) != "2sp" {
		t.Errorf("%q, then %q", before, week(monday))
	}
	last := ""
	for at := time.Unix(0, 0); at.Year() < 2597; at = at.Add(Week) {
		if week(at) <= last {
			t.Fatalf("%q after %q", week(at), last)
		}
		last = week(at)
	}
	if id := NewVerificationID(monday); len(id) != 29 || id == NewVerificationID(monday) {
		t.Error(id)
	}
}
