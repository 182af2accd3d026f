package quota

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	must(t, err)
	return z
}

func calendar(limit int, per Period, z *time.Location) Rule {
	return Rule{Name: string(per), Scope: Recipient, Limit: limit, Per: per, Zone: z}
}

// parse parses a time in RFC 3339, which may lack the seconds.
func parse(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04Z07:00", text)
	if err != nil {
		at, err = time.Parse(time.RFC3339Nano, text)
	}
	must(t, err)
	return at
}

func TestQuota18PeriodsAreHalfOpenLocalTimes(t *testing.T) {
	for _, c := range []struct {
		about, zone     string
		per             Period
		now, start, end string
	}{
		{"a plain day", "Asia/Shanghai", Day, "2026-11-20T23:59:59.999999+08:00", "2026-11-20T00:00+08:00", "2026-11-21T00:00+08:00"},
		{"its first µs", "Asia/Shanghai", Day, "2026-11-21T00:00+08:00", "2026-11-21T00:00+08:00", "2026-11-22T00:00+08:00"},
		{"an hour on the half", "Asia/Kolkata", Hour, "2026-11-20T10:29:59Z", "2026-11-20T09:30Z", "2026-11-20T10:30Z"},
		{"a week from Monday", "Asia/Shanghai", Week, "2026-11-22T12:00+08:00", "2026-11-16T00:00+08:00", "2026-11-23T00:00+08:00"},
		{"a month", "Asia/Shanghai", Month, "2028-02-29T23:59:59+08:00", "2028-02-01T00:00+08:00", "2028-03-01T00:00+08:00"},
		{"Berlin, 31 days 1 h", "Europe/Berlin", Month, "2026-10-31T12:00+01:00", "2026-10-01T00:00+02:00", "2026-11-01T00:00+01:00"},
		{"Berlin, 23 hours", "Europe/Berlin", Day, "2026-03-29T12:00+02:00", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"},
		{"Berlin, 25 hours", "Europe/Berlin", Day, "2026-10-25T12:00+01:00", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"},
		{"Berlin, before the gap", "Europe/Berlin", Hour, "2026-03-29T01:59:59+01:00", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"},
		{"Berlin, an hour twice", "Europe/Berlin", Hour, "2026-10-25T02:10+01:00", "2026-10-25T02:00+02:00", "2026-10-25T03:00+01:00"},
		{"Cairo, no midnight", "Africa/Cairo", Day, "2026-04-24T01:00+03:00", "2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"},
		{"Cairo, the day before", "Africa/Cairo", Day, "2026-04-23T23:59:59+02:00", "2026-04-23T00:00+02:00", "2026-04-24T01:00+03:00"},
		{"Cairo, the last hour twice", "Africa/Cairo", Day, "2026-10-29T23:30+02:00", "2026-10-29T00:00+03:00", "2026-10-30T00:00+02:00"},
		{"Lord Howe, 24.5 h", "Australia/Lord_Howe", Day, "2026-04-05T12:00+10:30", "2026-04-05T00:00+11:00", "2026-04-06T00:00+10:30"},
		{"Lord Howe, 0.5 h", "Australia/Lord_Howe", Hour, "2026-10-04T02:30+11:00", "2026-10-04T02:30+11:00", "2026-10-04T03:00+11:00"},
		{
			"St. John's, midnight twice", "America/St_Johns", Day, "2009-10-31T23:30-03:30", "2009-11-01T00:00-02:30",
			"2009-11-02T00:00-03:30",
		},
		{"Samoa, a day left out", "Pacific/Apia", Day, "2011-12-31T00:00+14:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"},
	} {
		rule := calendar(1, c.per, zone(t, c.zone))
		start, end := rule.Period(parse(t, c.now))
		if end.Sub(start) > rule.Keep() {
			t.Errorf("%s: an event counts for up to %v and is kept for %v", c.about, end.Sub(start), rule.Keep())
		}
		same(t, c.about+": start", start, parse(t, c.start).UTC())
		same(t, c.about+": end", end, parse(t, c.end).UTC())
	}
}

// Every period begins where the one before ended, contains the instant for which it was asked, and
// is not longer than its events are kept.
func TestQuota18PeriodsLeaveNoGap(t *testing.T) {
	for _, name := range []string{
		"Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Shanghai", "America/St_Johns",
		"Antarctica/Casey", "Pacific/Apia", "Pacific/Kwajalein",
	} {
		for _, per := range []Period{Hour, Day, Week, Month} {
			r, from, months := calendar(1, per, zone(t, name)), "2009-01-01T00:00Z", 48
			// On 30 September 1969, this zone went back by 23 hours. The day is cut when its events
			// are no longer kept.
			if name == "Pacific/Kwajalein" {
				from, months = "1969-09-01T00:00Z", 2
			} else if per == Hour { // all of these zones except Cairo and Shanghai change their clocks
				from, months = "2011-09-20T00:00Z", 4
			}
			now := parse(t, from)
			for to := now.AddDate(0, months, 0); now.Before(to); {
				start, end := r.Period(now)
				if now.Before(start) || !now.Before(end) || end.Sub(start) > r.Keep() {
					t.Fatalf("%s %s: %v is not within %v and %v", name, per, now, start, end)
				}
				if s, e := r.Period(end.Add(-µs)); s != start || e != end {
					t.Fatalf("%s %s: the last µs of %v is in %v", name, per, start, s)
				}
				if s, _ := r.Period(end); s != end {
					t.Fatalf("%s %s: after %v comes %v", name, per, end, s)
				}
				now = end
			}
		}
	}
}

// The script finds the current period or dates by Redis's clock, whatever time the limiter saw
// last.
func TestQuota18ThePeriodIsThatOfRedisClock(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	for _, s := range []struct {
		rule     Rule
		now      string
		seen     time.Duration // the last time that the limiter saw, as the difference from the clock
		admitted bool
		asked    int
	}{
		{calendar(1, Hour, nil), "2040-03-01T09:59:59.999999Z", -1000 * time.Hour, true, 2},
		{calendar(1, Hour, nil), "2040-03-01T09:59:59.999999Z", -µs, false, 1},
		{calendar(1, Hour, nil), "2040-03-01T10:00:00Z", -µs, true, 1},                    // the limiter's last time is in the hour before
		{calendar(1, Hour, nil), "2040-03-01T10:59:59.999999Z", µs, false, 1},             // the last time is in the hour after
		{calendar(1, Hour, nil), "2040-03-01T12:00:00Z", -3 * time.Hour, true, 2},         // the last time is three hours earlier
		{calendar(1, Hour, nil), "2040-03-01T12:59:59.999999Z", time.Hour + µs, false, 2}, // the last time is two hours later
		{dates(1, 2, nil), "2040-03-04T23:59:59.999999Z", -1000 * time.Hour, true, 2},
		{dates(1, 2, nil), "2040-03-05T00:00:00Z", -time.Second, false, 1},       // the last time is on the date before
		{dates(1, 2, nil), "2040-03-05T23:59:59.999999Z", time.Second, false, 1}, // the last time is on the date after
		{dates(1, 2, nil), "2040-03-06T00:00:00Z", -25 * time.Hour, true, 2},     // the last time is two dates earlier
		{dates(1, 2, nil), "2040-03-07T12:00:00Z", 48 * time.Hour, false, 2},     // the last time is two dates later
	} {
		w.set(parse(t, s.now))
		limiter.serverTime.Store(w.now.Add(s.seen).UnixMicro())
		before := evalshas(t, limiter.client)
		d := w.admits(s.admitted, s.rule)
		same(t, s.now+": scripts", evalshas(t, limiter.client)-before, s.asked)
		same(t, s.now+": used", d.Rules[0].Used, 1)
		same(t, s.now+": seen", limiter.serverTime.Load(), w.now.UnixMicro())
		if _, end := s.rule.Period(w.now); s.rule.Per != "" {
			same(t, s.now+": wait", d.RetryAfter(), end.Sub(w.now))
		}
	}
}

// If the clock leaves the periods at each call, nothing is admitted, and no bucket counts the
// event.
func TestQuota18AClockThatRunsAwayAdmitsNothing(t *testing.T) {
	client := newClient(t, servertest.Redis(t).URL())
	// Each call moves the clock forward by almost 28 hours.
	const clock = "local function clock() return redis.call('INCRBY', 'now', '100000000000') end\n"
	r := newRedis(client, "q:", clock)
	rules := []Rule{calendar(1, Hour, nil), sliding(IP, 1, time.Minute)}
	_, err := r.Take(t.Context(), request("id", rules...))
	same(t, "unavailable", errors.Is(err, ErrUnavailable), true)
	keys, err := client.Keys(t.Context(), "q:*").Result()
	must(t, err)
	same(t, "buckets", len(keys), 0)
	same(t, "tried", evalshas(t, client.(*redis.Client)), takeTries)
}

func dates(limit, days int, z *time.Location) Rule {
	return Rule{Name: "dates", Scope: Recipient, Limit: limit, Days: days, Zone: z}
}

// A rule with Days counts from the beginning of its first date to the end of today. An event leaves
// at the beginning of the date that is Days after its own date.
func TestDatesAreLocal(t *testing.T) {
	for _, c := range []struct {
		about, zone             string
		days                    int
		now, start, end, leaves string // leaves is when an event of now stops counting
	}{
		{
			"a week", "Asia/Shanghai", 7, "2026-11-20T23:59+08:00", "2026-11-14T00:00+08:00", "2026-11-21T00:00+08:00",
			"2026-11-27T00:00+08:00",
		},
		{
			"then", "Asia/Shanghai", 7, "2026-11-21T00:00+08:00", "2026-11-15T00:00+08:00", "2026-11-22T00:00+08:00",
			"2026-11-28T00:00+08:00",
		},
		{"UTC, over the end of February", "UTC", 3, "2028-03-01T12:00Z", "2028-02-28T00:00Z", "2028-03-02T00:00Z", "2028-03-04T00:00Z"},
		{"31 dates", "UTC", 31, "2026-01-30T12:00Z", "2025-12-31T00:00Z", "2026-01-31T00:00Z", "2026-03-02T00:00Z"},
		{
			"spring", "America/New_York", 7, "2026-03-10T12:00-04:00", "2026-03-04T00:00-05:00", "2026-03-11T00:00-04:00",
			"2026-03-17T00:00-04:00",
		},
		{
			"autumn", "America/New_York", 7, "2026-11-03T12:00-05:00", "2026-10-28T00:00-04:00", "2026-11-04T00:00-05:00",
			"2026-11-10T00:00-05:00",
		},
		{
			"23 hours", "Europe/Berlin", 3, "2026-03-30T00:00+02:00", "2026-03-28T00:00+01:00", "2026-03-31T00:00+02:00",
			"2026-04-02T00:00+02:00",
		},
		{
			"no 0:00", "Africa/Cairo", 2, "2026-04-25T12:00+03:00", "2026-04-24T01:00+03:00", "2026-04-26T00:00+03:00",
			"2026-04-27T00:00+03:00",
		},
		{
			"with a skipped date", "Pacific/Apia", 3, "2011-12-31T12:00+14:00", "2011-12-29T00:00-10:00", "2012-01-01T00:00+14:00",
			"2012-01-03T00:00+14:00",
		},
		{
			"skipped", "Pacific/Apia", 3, "2011-12-27T12:00-10:00", "2011-12-25T00:00-10:00", "2011-12-28T00:00-10:00",
			"2011-12-31T00:00+14:00",
		},
	} {
		r, now := dates(1, c.days, zone(t, c.zone)), parse(t, c.now)
		start, end := r.Period(now)
		what := c.zone + ", " + c.about
		same(t, what+": start", start, parse(t, c.start).UTC())
		same(t, what+": end", end, parse(t, c.end).UTC())
		same(t, what+": leaves", r.expiryByDate(now), parse(t, c.leaves).UTC())
		d := Evaluate([]Rule{r}, map[Scope][]Event{Recipient: {{ID: "now", At: now}}}, now)
		same(t, what+": wait", d.RetryAfter(), parse(t, c.leaves).Sub(now))
		same(t, what+": window", d.Rules[0].Window, end.Sub(start))
	}
}

// The test computes the counted events again, only from the dates that the zone's clock shows at
// the event and now. Kwajalein had the date 30 September 1969 twice, so there the test only checks
// that an event leaves when expiryByDate says so, and that no period is longer than Keep.
func TestDatesOfManyInstants(t *testing.T) {
	dice := rand.New(rand.NewPCG(21, 0))
	for name, from := range map[string]string{
		"America/New_York": "2026-02-20T00:00Z", "Europe/Berlin": "2026-10-10T00:00Z",
		"Asia/Shanghai": "2026-05-01T00:00Z",
		"Pacific/Apia":  "2011-12-15T00:00Z", "Africa/Cairo": "2026-04-10T00:00Z",
		"Australia/Lord_Howe": "2026-03-20T00:00Z",
		"Pacific/Kwajalein":   "1969-09-20T00:00Z",
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
			end := r.expiryByDate(at)
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
