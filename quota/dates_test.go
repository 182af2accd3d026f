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
		about, zone string
		days        int
		now         string
		start, end  string
		leaves      string // what happens at now
	}{
		{"a week of Shanghai", "Asia/Shanghai", 7, "2026-11-20T23:59:59.999999+08:00", "2026-11-14T00:00:00+08:00",
			"2026-11-21T00:00:00+08:00", "2026-11-27T00:00:00+08:00"},
		{"the next µs", "Asia/Shanghai", 7, "2026-11-21T00:00:00+08:00", "2026-11-15T00:00:00+08:00",
			"2026-11-22T00:00:00+08:00", "2026-11-28T00:00:00+08:00"},
		{"one date", "Asia/Shanghai", 1, "2026-11-20T12:00:00+08:00", "2026-11-20T00:00:00+08:00",
			"2026-11-21T00:00:00+08:00", "2026-11-21T00:00:00+08:00"},
		{"UTC, over the end of February", "UTC", 3, "2028-03-01T12:00:00Z", "2028-02-28T00:00:00Z", "2028-03-02T00:00:00Z",
			"2028-03-04T00:00:00Z"},
		{"31 dates", "UTC", 31, "2026-01-30T12:00:00Z", "2025-12-31T00:00:00Z", "2026-01-31T00:00:00Z", "2026-03-02T00:00:00Z"},

		{"New York, spring", "America/New_York", 7, "2026-03-10T12:00:00-04:00", "2026-03-04T00:00:00-05:00",
			"2026-03-11T00:00:00-04:00", "2026-03-17T00:00:00-04:00"},
		{"New York, the short day itself", "America/New_York", 2, "2026-03-08T03:00:00-04:00", "2026-03-07T00:00:00-05:00",
			"2026-03-09T00:00:00-04:00", "2026-03-10T00:00:00-04:00"},
		{"New York, autumn", "America/New_York", 7, "2026-11-03T12:00:00-05:00", "2026-10-28T00:00:00-04:00",
			"2026-11-04T00:00:00-05:00", "2026-11-10T00:00:00-05:00"},
		{"New York, the hour that comes twice, second", "America/New_York", 2, "2026-11-01T01:30:00-05:00", "2026-10-31T00:00:00-04:00",
			"2026-11-02T00:00:00-05:00", "2026-11-03T00:00:00-05:00"},
		{"Berlin, 23 hours", "Europe/Berlin", 3, "2026-03-30T00:00:00+02:00", "2026-03-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00",
			"2026-04-02T00:00:00+02:00"},
		{"Berlin, 25 hours", "Europe/Berlin", 3, "2026-10-24T23:00:00+02:00", "2026-10-22T00:00:00+02:00", "2026-10-25T00:00:00+02:00",
			"2026-10-27T00:00:00+01:00"},
		{"Cairo, no midnight", "Africa/Cairo", 2, "2026-04-25T12:00:00+03:00", "2026-04-24T01:00:00+03:00", "2026-04-26T00:00:00+03:00",
			"2026-04-27T00:00:00+03:00"},
		{"Samoa, with a date that it left out", "Pacific/Apia", 3, "2011-12-31T12:00:00+14:00", "2011-12-29T00:00:00-10:00",
			"2012-01-01T00:00:00+14:00", "2012-01-03T00:00:00+14:00"},
		{"Samoa, leaving on the date left out", "Pacific/Apia", 3, "2011-12-27T12:00:00-10:00", "2011-12-25T00:00:00-10:00",
			"2011-12-28T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"Samoa, leaving after it", "Pacific/Apia", 3, "2011-12-28T12:00:00-10:00", "2011-12-26T00:00:00-10:00",
			"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
	} {
		r, now := dates(1, c.days, zone(t, c.zone)), parse(t, c.now)
		start, end := r.Period(now)
		same(t, c.about+": start", start, parse(t, c.start).UTC())
		same(t, c.about+": end", end, parse(t, c.end).UTC())
		same(t, c.about+": leaves", r.expiryOf(now), parse(t, c.leaves).UTC())
		d := Evaluate([]Rule{r}, map[Scope][]Event{Recipient: {{ID: "now", At: now}}}, now)
		same(t, c.about+": wait", d.RetryAfter(), parse(t, c.leaves).Sub(now))
		same(t, c.about+": window", d.Rules[0].Window, end.Sub(start))
	}
}

// What counts is said again by dates alone: those of the event and of now, as the zone's clock shows them.
func TestDatesOfManyInstants(t *testing.T) {
	dice := rand.New(rand.NewPCG(21, 0))
	for name, from := range map[string]string{
		"America/New_York": "2026-02-20T00:00:00Z", "Europe/Berlin": "2026-10-10T00:00:00Z", "Asia/Shanghai": "2026-05-01T00:00:00Z",
		"Pacific/Apia": "2011-12-15T00:00:00Z", "Africa/Cairo": "2026-04-10T00:00:00Z", "Australia/Lord_Howe": "2026-03-20T00:00:00Z",
	} {
		z, began := zone(t, name), parse(t, from)
		date := func(at time.Time) int64 {
			year, month, day := at.In(z).Date()
			return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
		}
		for range 20_000 {
			at := began.Add(time.Duration(dice.Int64N(int64(20*24*time.Hour/µs))) * µs)
			now := at.Add(time.Duration(dice.Int64N(int64(12*24*time.Hour/µs))) * µs)
			r := dates(1, 1+dice.IntN(9), z)
			counts := at.After(Cutoffs([]Rule{r}, now)[0])
			if want := date(at) > date(now)-int64(r.Days); counts != want {
				t.Fatalf("%s, %d dates: at %v, %v counts: %v, want %v", name, r.Days, now, at, counts, want)
			}
			end := r.expiryOf(at)
			if counts != now.Before(end) {
				t.Fatalf("%s, %d dates: at %v, %v counts: %v, and leaves at %v", name, r.Days, now, at, counts, end)
			}
			if turns := r.PeriodStarts(end.Add(-µs)); turns[2] != end {
				t.Fatalf("%s, %d dates: %v leaves at %v, which is no turn of %v", name, r.Days, at, end, turns)
			}
			if start, end := r.Period(now); end.Sub(start) > r.Keep() {
				t.Fatalf("%s, %d dates: %v to %v are longer than %v", name, r.Days, start, end, r.Keep())
			}
		}
	}
}

// A zone that lived a date twice: no event is needed for longer than it is kept, and each leaves when it is told to.
func TestADateLivedTwice(t *testing.T) {
	dice := rand.New(rand.NewPCG(1969, 0))
	r := dates(1, 3, zone(t, "Pacific/Kwajalein")) // on 30 September 1969 back by 23 hours
	began := parse(t, "1969-09-24T00:00:00Z")
	for range 20_000 {
		at := began.Add(time.Duration(dice.Int64N(int64(10*24*time.Hour/µs))) * µs)
		now := at.Add(time.Duration(dice.Int64N(int64(5*24*time.Hour/µs))) * µs)
		start, end := r.Period(now)
		if end.Sub(start) > r.Keep() {
			t.Fatalf("at %v: %v to %v", now, start, end)
		}
		if counts, free := !at.Before(start), r.expiryOf(at); counts != now.Before(free) {
			t.Fatalf("at %v, %v counts: %v, and leaves at %v", now, at, counts, free)
		}
	}
}

// A gift: at most one a day of Shanghai, and three on any seven of its dates. One of Monday evening leaves with the next Monday's
// first µs, and not in the evening.
func TestOneADayAndThreeOnSevenDates(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		shanghai := zone(t, "Asia/Shanghai")
		gift := []Rule{calendar(1, Day, shanghai), dates(3, 7, shanghai)}
		for _, step := range []struct{ at, want string }{
			{"2040-03-05T20:00:00+08:00", "true day 14400000"},
			{"2040-03-05T23:59:59+08:00", "false day 1000"},
			{"2040-03-06T00:00:00+08:00", "true day 86400000"},
			{"2040-03-09T21:00:00+08:00", "true dates 183600000"}, // until Monday, 0:00
			{"2040-03-10T00:00:00+08:00", "false dates 172800000"},
			{"2040-03-11T23:59:59.999999+08:00", "false dates 1"},
			{"2040-03-12T00:00:00+08:00", "true day 86400000"}, // and so do the dates: the oldest of them is Tuesday
			{"2040-03-13T00:00:00+08:00", "true dates 259200000"},
			{"2040-03-15T12:00:00+08:00", "false dates 43200000"},
		} {
			w.set(parse(t, step.at))
			if got := told(w.asks(gift, "user 7")); got != step.want {
				t.Fatalf("%s: %s, want %s", step.at, got, step.want)
			}
		}
	})
}

// Several events of one date leave at once, and a lowered limit waits for as many dates as it must.
func TestTheEventsOfADateLeaveTogether(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		berlin := zone(t, "Europe/Berlin")
		for _, at := range []string{"2040-03-23T08:00:00+01:00", "2040-03-23T22:00:00+01:00", "2040-03-24T12:00:00+01:00"} {
			w.set(parse(t, at))
			w.admits(true, dates(3, 3, berlin))
		}
		w.set(parse(t, "2040-03-25T12:00:00+02:00")) // the clock was put forward in the night
		d := w.admits(false, dates(3, 3, berlin))
		same(t, "wait", d.RetryAfter(), 12*time.Hour)
		same(t, "window", d.Rules[0].Window, 71*time.Hour)
		same(t, "wait of two fewer", w.peek(dates(1, 3, berlin)).RetryAfter(), 36*time.Hour)
		w.set(parse(t, "2040-03-26T00:00:00+02:00"))
		d = w.peek(dates(3, 3, berlin))
		same(t, "used", d.Rules[0].Used, 1)
		same(t, "reset", d.Rules[0].ResetAfter, 24*time.Hour)
	})
}

// The script decides by its own clock which dates count, wherever the caller thought that clock to be.
func TestTheDatesAreThoseOfRedisClock(t *testing.T) {
	w := redisWorld(t)
	r, limiter := dates(1, 2, nil), w.Limiter.(*Redis)
	for _, s := range []struct {
		about, now string
		seen       time.Duration // from the clock
		admitted   bool
		asked      int
	}{
		{"never seen", "2040-03-01T23:59:59.999999Z", -1000 * time.Hour, true, 2},
		{"seen on the date before", "2040-03-02T00:00:00Z", -time.Second, false, 1},
		{"seen on the date after", "2040-03-02T23:59:59.999999Z", time.Second, false, 1},
		{"seen two dates before", "2040-03-03T00:00:00Z", -25 * time.Hour, true, 2},
		{"seen two dates after", "2040-03-04T12:00:00Z", 48 * time.Hour, false, 2},
	} {
		w.set(parse(t, s.now))
		limiter.seen.Store(w.now.Add(s.seen).UnixMicro())
		before := evalshas(t, limiter.client)
		d := w.admits(s.admitted, r)
		same(t, s.about+": asked", evalshas(t, limiter.client)-before, s.asked)
		same(t, s.about+": used", d.Rules[0].Used, 1)
	}
}
