package store

import (
	"testing"
	"time"
)

// A day begins and ends at midnight of its zone, even if the zone's clocks change on it. Such a day
// lasts 23 or 25 hours, or lacks its first hour. In a zone whose offset has half an hour, days
// begin at half past midnight, with the first hour of UTC.
func TestDaysBeginAtLocalMidnight(t *testing.T) {
	for _, c := range []struct {
		zone, from string
		days       int
		want       []string // where the days begin
	}{
		{
			"Europe/Berlin", "2030-03-30T10:00:00Z", 4,
			[]string{"2030-03-29T23:00Z", "2030-03-30T23:00Z", "2030-03-31T22:00Z", "2030-04-01T22:00Z"},
		},
		{"America/New_York", "2030-11-02T10:00:00Z", 3, []string{"2030-11-02T04:00Z", "2030-11-03T04:00Z", "2030-11-04T05:00Z"}},
		// in Havana, the 10th has no 00:00
		{"America/Havana", "2030-03-09T10:00:00Z", 3, []string{"2030-03-09T05:00Z", "2030-03-10T05:00Z", "2030-03-11T04:00Z"}},
		{"Asia/Kolkata", "2030-03-09T10:00:00Z", 2, []string{"2030-03-08T19:00Z", "2030-03-09T19:00Z"}},
		{"America/St_Johns", "2030-01-09T10:00:00Z", 2, []string{"2030-01-09T04:00Z", "2030-01-10T04:00Z"}},
		{"UTC", "2030-03-09T10:00:00Z", 2, []string{"2030-03-09T00:00Z", "2030-03-10T00:00Z"}},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, _ := time.Parse(time.RFC3339, c.from)
		q := StatsQuery{From: from, To: from.AddDate(0, 0, c.days), IntervalLength: 24 * time.Hour, Zone: zone}
		at := q.IntervalStart(from)
		for i, want := range c.want {
			if got := at.Format("2006-01-02T15:04Z"); got != want {
				t.Errorf("%s, day %d begins %s, want %s", c.zone, i, got, want)
			}
			next := q.NextIntervalStart(at)
			if q.IntervalStart(at) != at || q.IntervalStart(next.Add(-time.Microsecond)) != at || q.IntervalStart(next) != next {
				t.Errorf("%s: %s is not in the day until %s", c.zone, at, next)
			}
			at = next
		}
	}
	// Hours are those of UTC in every zone.
	q := StatsQuery{From: time.Unix(7200, 0), To: time.Unix(9000, 0), IntervalLength: time.Hour, Zone: time.FixedZone("", 1800)}
	if got := q.IntervalStart(time.Unix(7300, 0)); got.Unix() != 7200 || q.NextIntervalStart(got).Unix() != 10800 {
		t.Errorf("an hour begins %s", got)
	}
}
