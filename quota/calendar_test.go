package quota

import (
	"errors"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/servertest"
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

// parse reads RFC 3339, also without seconds.
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
		{"Berlin, 23 hours", "Europe/Berlin", Day, "2026-03-29T12:00+02:00", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"},
		{"Berlin, 25 hours", "Europe/Berlin", Day, "2026-10-25T12:00+01:00", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"},
		{"Berlin, before the gap", "Europe/Berlin", Hour, "2026-03-29T01:59:59+01:00", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"},
		{"Berlin, an hour that comes twice", "Europe/Berlin", Hour, "2026-10-25T02:10+01:00", "2026-10-25T02:00+02:00", "2026-10-25T03:00+01:00"},
		{"Cairo, no midnight", "Africa/Cairo", Day, "2026-04-24T01:00+03:00", "2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"},
		{"Cairo, the day before that", "Africa/Cairo", Day, "2026-04-23T23:59:59+02:00", "2026-04-23T00:00+02:00", "2026-04-24T01:00+03:00"},
		{"Cairo, the last hour twice", "Africa/Cairo", Day, "2026-10-29T23:30+02:00", "2026-10-29T00:00+03:00", "2026-10-30T00:00+02:00"},
		{"Lord Howe, 24 h 30 min", "Australia/Lord_Howe", Day, "2026-04-05T12:00+10:30", "2026-04-05T00:00+11:00", "2026-04-06T00:00+10:30"},
		{"Lord Howe, 30 minutes", "Australia/Lord_Howe", Hour, "2026-10-04T02:30+11:00", "2026-10-04T02:30+11:00", "2026-10-04T03:00+11:00"},
		{"St. John's, back over midnight", "America/St_Johns", Day, "2009-10-31T23:30-03:30", "2009-11-01T00:00-02:30", "2009-11-02T00:00-03:30"},
		{"Samoa, a day left out", "Pacific/Apia", Day, "2011-12-31T00:00+14:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"},
	} {
		start, end := calendar(1, c.per, zone(t, c.zone)).Period(parse(t, c.now))
		same(t, c.about+": start", start, parse(t, c.start).UTC())
		same(t, c.about+": end", end, parse(t, c.end).UTC())
	}
}

// Every period begins where the one before it ended, contains its own instants, and lasts no longer than its events are kept.
func TestQuota18PeriodsLeaveNoGap(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Shanghai", "America/St_Johns",
		"Antarctica/Casey", "Pacific/Apia", "Pacific/Kwajalein"} {
		for _, per := range []Period{Hour, Day, Week, Month} {
			r, from, months := calendar(1, per, zone(t, name)), "2009-01-01T00:00Z", 48
			if name == "Pacific/Kwajalein" { // went back by 23 hours on 30 September: a day that is cut when its events are kept no longer
				from, months = "1969-09-01T00:00Z", 2
			} else if per == Hour { // all but Cairo change their clocks
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

// The script decides by its own clock which period or dates count, whatever instant the limiter saw last.
func TestQuota18ThePeriodIsThatOfRedisClock(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	for _, s := range []struct {
		rule     Rule
		now      string
		seen     time.Duration // from the clock
		admitted bool
		asked    int
	}{
		{calendar(1, Hour, nil), "2040-03-01T09:59:59.999999Z", -1000 * time.Hour, true, 2},
		{calendar(1, Hour, nil), "2040-03-01T09:59:59.999999Z", -µs, false, 1},
		{calendar(1, Hour, nil), "2040-03-01T10:00:00Z", -µs, true, 1},                    // seen in the hour before
		{calendar(1, Hour, nil), "2040-03-01T10:59:59.999999Z", µs, false, 1},             // in the hour after
		{calendar(1, Hour, nil), "2040-03-01T12:00:00Z", -3 * time.Hour, true, 2},         // three hours before
		{calendar(1, Hour, nil), "2040-03-01T12:59:59.999999Z", time.Hour + µs, false, 2}, // two hours after
		{dates(1, 2, nil), "2040-03-04T23:59:59.999999Z", -1000 * time.Hour, true, 2},
		{dates(1, 2, nil), "2040-03-05T00:00:00Z", -time.Second, false, 1},       // on the date before
		{dates(1, 2, nil), "2040-03-05T23:59:59.999999Z", time.Second, false, 1}, // on the date after
		{dates(1, 2, nil), "2040-03-06T00:00:00Z", -25 * time.Hour, true, 2},     // two dates before
		{dates(1, 2, nil), "2040-03-07T12:00:00Z", 48 * time.Hour, false, 2},     // two dates after
	} {
		w.set(parse(t, s.now))
		limiter.seen.Store(w.now.Add(s.seen).UnixMicro())
		before := evalshas(t, limiter.client)
		d := w.admits(s.admitted, s.rule)
		same(t, s.now+": scripts", evalshas(t, limiter.client)-before, s.asked)
		same(t, s.now+": used", d.Rules[0].Used, 1)
		same(t, s.now+": seen", limiter.seen.Load(), w.now.UnixMicro())
		if _, end := s.rule.Period(w.now); s.rule.Per != "" {
			same(t, s.now+": wait", d.RetryAfter(), end.Sub(w.now))
		}
	}
}

// A clock that leaves the periods at each call admits nothing, and no bucket counts the event.
func TestQuota18AClockThatRunsAwayAdmitsNothing(t *testing.T) {
	client := newClient(t, servertest.Redis(t).URL())
	const clock = "local function clock() return redis.call('INCRBY', 'now', '100000000000') end\n" // 27 hours further each time
	r := newRedis(client, "q:", clock)
	rules := []Rule{calendar(1, Hour, nil), sliding(IP, 1, time.Minute)}
	_, err := r.Take(t.Context(), request("id", rules...))
	same(t, "unavailable", errors.Is(err, ErrUnavailable), true)
	keys, err := client.Keys(t.Context(), "q:*").Result()
	must(t, err)
	same(t, "buckets", len(keys), 0)
	same(t, "tried", evalshas(t, client.(*redis.Client)), tries)
}
