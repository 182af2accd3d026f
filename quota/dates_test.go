package quota

import (
	"math/rand/v2"
	"testing"
	"time"
)

func dates(limit, days int, z *time.Location) Rule {
	return Rule{Name: "dates", Scope: Recipient, Limit: limit, Days: days, Zone: z}
}

// A rule with Days counts from the beginning of its first date to the end of today. An event leaves when the date begins that is so
// many after its own.
func TestDatesAreLocal(t *testing.T) {
	for _, c := range []struct {
		about, zone             string
		days                    int
		now, start, end, leaves string // leaves: an event of now
	}{
		{"a week", "Asia/Shanghai", 7, "2026-11-20T23:59+08:00", "2026-11-14T00:00+08:00", "2026-11-21T00:00+08:00", "2026-11-27T00:00+08:00"},
		{"then", "Asia/Shanghai", 7, "2026-11-21T00:00+08:00", "2026-11-15T00:00+08:00", "2026-11-22T00:00+08:00", "2026-11-28T00:00+08:00"},
		{"UTC, over the end of February", "UTC", 3, "2028-03-01T12:00Z", "2028-02-28T00:00Z", "2028-03-02T00:00Z", "2028-03-04T00:00Z"},
		{"31 dates", "UTC", 31, "2026-01-30T12:00Z", "2025-12-31T00:00Z", "2026-01-31T00:00Z", "2026-03-02T00:00Z"},
		{"spring", "America/New_York", 7, "2026-03-10T12:00-04:00", "2026-03-04T00:00-05:00", "2026-03-11T00:00-04:00", "2026-03-17T00:00-04:00"},
		{"autumn", "America/New_York", 7, "2026-11-03T12:00-05:00", "2026-10-28T00:00-04:00", "2026-11-04T00:00-05:00", "2026-11-10T00:00-05:00"},
		{"23 hours", "Europe/Berlin", 3, "2026-03-30T00:00+02:00", "2026-03-28T00:00+01:00", "2026-03-31T00:00+02:00", "2026-04-02T00:00+02:00"},
		{"no 0:00", "Africa/Cairo", 2, "2026-04-25T12:00+03:00", "2026-04-24T01:00+03:00", "2026-04-26T00:00+03:00", "2026-04-27T00:00+03:00"},
		{"with a skipped date", "Pacific/Apia", 3, "2011-12-31T12:00+14:00", "2011-12-29T00:00-10:00", "2012-01-01T00:00+14:00",
			"2012-01-03T00:00+14:00"},
		{"skipped", "Pacific/Apia", 3, "2011-12-27T12:00-10:00", "2011-12-25T00:00-10:00", "2011-12-28T00:00-10:00", "2011-12-31T00:00+14:00"},
	} {
		r, now := dates(1, c.days, zone(t, c.zone)), parse(t, c.now)
		start, end := r.Period(now)
		what := c.zone + ", " + c.about
		same(t, what+": start", start, parse(t, c.start).UTC())
		same(t, what+": end", end, parse(t, c.end).UTC())
		same(t, what+": leaves", r.expiryOf(now), parse(t, c.leaves).UTC())
		d := Evaluate([]Rule{r}, map[Scope][]Event{Recipient: {{ID: "now", At: now}}}, now)
		same(t, what+": wait", d.RetryAfter(), parse(t, c.leaves).Sub(now))
		same(t, what+": window", d.Rules[0].Window, end.Sub(start))
	}
}

// What counts is computed again from the dates alone that the zone's clock shows at the event and now. In Kwajalein, which had a date twice
// on 30 September 1969, an event only leaves when expiryOf says, and counts for no longer than it is kept.
func TestDatesOfManyInstants(t *testing.T) {
	dice := rand.New(rand.NewPCG(21, 0))
	for name, from := range map[string]string{
		"America/New_York": "2026-02-20T00:00Z", "Europe/Berlin": "2026-10-10T00:00Z", "Asia/Shanghai": "2026-05-01T00:00Z",
		"Pacific/Apia": "2011-12-15T00:00Z", "Africa/Cairo": "2026-04-10T00:00Z", "Australia/Lord_Howe": "2026-03-20T00:00Z",
		"Pacific/Kwajalein": "1969-09-20T00:00Z",
	} {
		z, began, twice := zone(t, name), parse(t, from), name == "Pacific/Kwajalein"
		date := func(at time.Time) int64 {
			year, month, day := at.In(z).Date()
			return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
		}
		for range 2_000 {
			at := began.Add(time.Duration(dice.Int64N(int64(20*24*time.Hour/µs))) * µs)
			now := at.Add(time.Duration(dice.Int64N(int64(12*24*time.Hour/µs))) * µs)
			r := dates(1, 1+dice.IntN(9), z)
			counts := at.After(Cutoffs([]Rule{r}, now)[0])
			if want := date(at) > date(now)-int64(r.Days); counts != want && !twice {
				t.Fatalf("%s, %d dates: at %v, %v counts: %v, want %v", name, r.Days, now, at, counts, want)
			}
			end := r.expiryOf(at)
			if counts != now.Before(end) {
				t.Fatalf("%s, %d dates: at %v, %v counts: %v, and leaves at %v", name, r.Days, now, at, counts, end)
			}
			if turns := r.periodStarts(end.Add(-µs)); turns[2] != end && !twice {
				t.Fatalf("%s, %d dates: %v leaves at %v, which is no turn of %v", name, r.Days, at, end, turns)
			}
			if start, end := r.Period(now); end.Sub(start) > r.Keep() {
				t.Fatalf("%s, %d dates: %v to %v are longer than %v", name, r.Days, start, end, r.Keep())
			}
		}
	}
}
