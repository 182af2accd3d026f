package quota

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// asks runs one policy for one subject.
func (w *world) asks(rules []Rule, subject string) Decision {
	w.t.Helper()
	buckets := map[Scope]string{}
	for _, r := range rules {
		buckets[r.Scope] = Bucket(string(r.Scope), subject)
	}
	d, err := w.Take(w.t.Context(), Request{ID: w.id(), Rules: rules, Buckets: buckets})
	must(w.t, err)
	return d
}

// told is what a caller shows: whether it was let in, by which limit it was not, and the ms that remain.
func told(d Decision) string {
	worst, _ := d.Blocking()
	return fmt.Sprint(d.Admitted, " ", worst.Name, " ", Milliseconds(d.RetryAfter()))
}

// A gift: at most one a day of Shanghai and three in any 168 hours.
func TestOneADayAndThreeInSevenDays(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		shanghai := zone(t, "Asia/Shanghai")
		gift := []Rule{
			{Name: "today", Scope: Recipient, Limit: 1, Per: Day, Zone: shanghai},
			{Name: "week", Scope: Recipient, Limit: 3, Window: 168 * time.Hour},
		}
		march := func(day, hour, minute, second int) time.Time {
			return time.Date(2040, 3, day, hour, minute, second, 0, shanghai)
		}
		const h = 3_600_000
		for _, step := range []struct {
			at   time.Time
			want string
		}{
			{march(1, 20, 0, 0), fmt.Sprint("true today ", 4*h)},
			{march(1, 23, 59, 59), "false today 1000"},
			{march(2, 0, 0, 0), fmt.Sprint("true today ", 24*h)}, // 4 hours later, another day
			{march(2, 20, 0, 1), fmt.Sprint("false today ", 4*h-1000)},
			{march(3, 9, 0, 0), fmt.Sprint("true week ", (5*24+11)*h)},
			{march(3, 12, 0, 0), fmt.Sprint("false week ", (5*24+8)*h)}, // the longer of the two waits
			{march(4, 0, 0, 0), fmt.Sprint("false week ", (4*24+20)*h)},
			{march(8, 19, 59, 59), "false week 1000"},
			{march(8, 20, 0, 0), fmt.Sprint("true today ", 4*h)},
			{march(9, 0, 0, 0), fmt.Sprint("true week ", (24+9)*h)},
		} {
			w.set(step.at)
			if got := told(w.asks(gift, "user 7")); got != step.want {
				t.Fatalf("%v: %s, want %s", step.at, got, step.want)
			}
		}
	})
}

// SMS, fixed: three a clock hour of Kolkata, which is half an hour off UTC's; around its turn six within a minute.
func TestThreeAClockHour(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		fixed := []Rule{{Name: "hour", Scope: Recipient, Limit: 3, Per: Hour, Zone: zone(t, "Asia/Kolkata")}}
		turn := time.Date(2040, 3, 1, 13, 30, 0, 0, time.UTC)
		w.set(turn.Add(-30 * time.Second))
		for i := range 4 {
			same(t, "before the turn", w.asks(fixed, "phone").Admitted, i < 3)
		}
		w.set(turn.Add(-µs))
		same(t, "1 µs before", told(w.asks(fixed, "phone")), "false hour 1")
		w.set(turn)
		for i := range 4 {
			same(t, "at the turn", w.asks(fixed, "phone").Admitted, i < 3)
		}
		same(t, "then", told(w.asks(fixed, "phone")), "false hour 3600000")
	})
}

func TestValidate(t *testing.T) {
	good := Policy{Name: "default", Rules: defaults}
	must(t, good.Validate())
	must(t, Validate([]Rule{
		{Name: "a", Scope: IP, Limit: 1, Window: time.Second}, {Name: "z234567890123456789012345678901_", Scope: Recipient, Limit: 100_000,
			Window: 744 * time.Hour}, {Name: "a-b", Scope: IP, Limit: 2, Window: 90 * time.Second},
	}))
	bad := Policy{Name: "Default", Rules: []Rule{
		{Name: "minute", Scope: Recipient, Limit: 1, Window: time.Minute},
		{Name: "minute", Scope: "planet", Limit: 0, Window: time.Minute},
		{Name: "minute", Scope: IP, Limit: 100_001, Window: time.Second - 1},
		{Name: "", Scope: "", Limit: -1, Window: 0},
		{Name: "1st", Scope: Recipient, Limit: 1, Window: 744*time.Hour + time.Second},
		{Name: "a23456789012345678901234567890123", Scope: Recipient, Limit: 1, Window: 1500 * time.Millisecond},
		{Name: "new\nline", Scope: Recipient, Limit: 1, Window: -time.Minute},
	}}
	var got []string
	errs := bad.Validate().(interface{ Unwrap() []error }).Unwrap()
	same(t, "policy", errs[0].Error(), `policy name "Default" is not of the form [a-z][a-z0-9_-]{0,31}`)
	for _, e := range errs[1:] {
		var rule *RuleError
		same(t, "a rule's error", errors.As(e, &rule), true)
		got = append(got, fmt.Sprintf("%d %s", rule.Index, rule.Field))
	}
	sameList(t, "errors", got, []string{
		"1 name", "1 scope", "1 limit",
		"2 name", "2 limit", "2 window",
		"3 name", "3 scope", "3 limit", "3 window",
		"4 name", "4 window", "5 name", "5 window", "6 name", "6 window",
	})
	same(t, "text", Validate([]Rule{{Name: "minute", Scope: IP, Limit: 0, Window: time.Minute}}).Error(),
		`rule 1 ("minute"): limit 0 is not within 1 and 100000`)
	if Validate(nil) == nil {
		t.Error("no rule at all is valid")
	}
}

func TestDecision(t *testing.T) {
	state := func(name string, retry time.Duration) State { return State{Rule: Rule{Name: name}, RetryAfter: retry} }
	free := Decision{Rules: []State{state("a", 0), state("b", 0)}}
	_, blocked := free.Blocking()
	same(t, "free", free.Allowed() && !blocked && free.RetryAfter() == 0 && free.Violated() == nil, true)
	full := Decision{Rules: []State{state("a", 1), state("b", 0), state("c", 3), state("d", 3), state("e", 2)}}
	worst, blocked := full.Blocking()
	same(t, "blocked", blocked && !full.Allowed(), true)
	same(t, "by the first of the longest", worst.Name, "c")
	same(t, "wait", full.RetryAfter(), 3)
	sameList(t, "violated", full.Violated(), []string{"a", "c", "d", "e"})
}
