package page

import (
	"testing"
	"time"

	"sendcode/quota"
)

// Waits are rounded up, to the second or the minute, and validity is rounded down: neither is ever promised too early or for too long.
func TestDurationsInWords(t *testing.T) {
	for d, want := range map[time.Duration][3]string{ // digits; English; Chinese
		time.Microsecond:                  {"0:01", "1 s", "1 秒"},
		time.Second + time.Nanosecond:     {"0:02", "2 s", "2 秒"},
		41713 * time.Millisecond:          {"0:42", "42 s", "42 秒"},
		59 * time.Second:                  {"0:59", "59 s", "59 秒"},
		59*time.Second + 1:                {"1:00", "1 min", "1 分钟"},
		61 * time.Second:                  {"1:01", "2 min", "2 分钟"},
		59*time.Minute + time.Second:      {"59:01", "1 h", "1 小时"},
		time.Hour:                         {"60:00", "1 h", "1 小时"},
		3*time.Hour + 19*time.Minute + 1:  {"199:01", "3 h 20 min", "3 小时 20 分钟"},
		23*time.Hour + 59*time.Minute + 1: {"1439:01", "24 h", "24 小时"},
	} {
		if got := [3]string{minutesAndSeconds(d), english.durationUp(d), chinese.durationUp(d)}; got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		9*time.Minute + 59*time.Second: "9 min", 10 * time.Minute: "10 min", 60 * time.Second: "1 min",
		59*time.Second + 900*time.Millisecond: "59 s", 300 * time.Millisecond: "1 s",
	} {
		if got := english.durationDown(d); got != want {
			t.Errorf("%v left: %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		42 * time.Second: "in 0:42", 10*time.Minute - 1: "in 10:00", 10 * time.Minute: "in 10 min", 200*time.Minute - 1: "in 3 h 20 min",
	} {
		if _, got := english.countdown("Again", d, ""); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestRulesAreNamedAfterWhatTheyAreAbout(t *testing.T) {
	for _, c := range []struct {
		rule quota.Rule
		want string
	}{
		{quota.Rule{Name: "minute", Window: time.Minute}, "per minute"},
		{quota.Rule{Name: "hour", Window: time.Hour}, "per hour"},
		{quota.Rule{Name: "day", Window: 24 * time.Hour}, "in 24 hours"},
		{quota.Rule{Name: "minute", Window: 2 * time.Minute}, "in 2 min"}, // a name that lies
		{quota.Rule{Name: "week", Window: 7 * 24 * time.Hour}, "in 7 days"},
		{quota.Rule{Name: "x", Window: 30 * time.Second}, "in 30 s"},
		{quota.Rule{Name: "x", Per: quota.Hour, Window: time.Hour}, "this hour"},
		{quota.Rule{Name: "minute", Per: quota.Day, Window: 23 * time.Hour}, "today"},
		{quota.Rule{Name: "x", Per: quota.Week, Window: 168 * time.Hour}, "this week"},
		{quota.Rule{Name: "x", Per: quota.Month, Window: 744 * time.Hour}, "this month"},
		{quota.Rule{Name: "x", Window: 36 * time.Hour}, "in 36 h"},
		{quota.Rule{Name: "x", Days: 1, Window: 25 * time.Hour}, "today"},
		{quota.Rule{Name: "day", Days: 7, Window: 167 * time.Hour}, "in 7 days"},
	} {
		if got := english.ruleName(c.rule); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.rule.Name, c.rule.Window, got, c.want)
		}
	}
}

func TestPipsSayTheTruthBesideThem(t *testing.T) {
	rule := func(limit int) quota.Rule { return quota.Rule{Scope: quota.Recipient, Limit: limit, Window: time.Hour} }
	rows := english.pips(quota.Decision{Rules: []quota.State{
		{Rule: rule(1), Used: 1, RetryAfter: 41713 * time.Millisecond},
		{Rule: rule(5), Used: 2},
		{Rule: rule(10)},
		{Rule: rule(5), Used: 5, RetryAfter: 28 * time.Minute},
		{Rule: quota.Rule{Scope: quota.IP, Limit: 3, Window: time.Hour}, Used: 3, RetryAfter: time.Minute},
		{Rule: quota.Rule{Scope: quota.Network, Limit: 3, Window: time.Hour}, Used: 2},
	}})
	want := []struct {
		note, spoken string
		wait         int64
	}{
		{"next in 0:42", "1 of 1 used", 41713}, {"3 left", "2 of 5 used", 0}, {"10 left", "0 of 10 used", 0},
		{"next in 28 min", "5 of 5 used", 28 * 60 * 1000}, {"next in 1:00", "", 60 * 1000},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d: a rule that is not the recipient's has one while it refuses", len(rows), len(want))
	}
	for i, w := range want {
		if rows[i].Note != w.note || rows[i].Spoken != w.spoken || rows[i].Wait.MS != w.wait {
			t.Errorf("row %d: %q, %q, %d ms; want %+v", i, rows[i].Note, rows[i].Spoken, rows[i].Wait.MS, w)
		}
	}
}

// By the calendar, the page says the period; "since midnight" or "at midnight" would be about no send at all.
func TestACalendarRuleIsSpokenOfByItsPeriod(t *testing.T) {
	for _, c := range []struct {
		per           quota.Period
		heading, lead string
	}{
		{quota.Hour, "Hourly limit reached", "1 code was sent to a•••@x.example this hour."},
		{quota.Day, "Daily limit reached", "1 code was sent to a•••@x.example today."},
		{quota.Week, "Weekly limit reached", "1 code was sent to a•••@x.example this week."},
		{quota.Month, "Monthly limit reached", "1 code was sent to a•••@x.example this month."},
	} {
		worst := quota.State{Rule: quota.Rule{Name: "x", Scope: quota.Recipient, Limit: 1, Per: c.per, Window: time.Hour}, Used: 1, ResetAfter: time.Minute}
		heading, lead := english.ruleExplanation(worst, "a•••@x.example")
		if heading != c.heading || lead != (moment{Else: c.lead}) {
			t.Errorf("%s: %q, %+v", c.per, heading, lead)
		}
	}
	heading, lead := english.ruleExplanation(quota.State{Rule: quota.Rule{Scope: quota.Recipient, Limit: 3, Days: 7}, Used: 3}, "a•••@x.example")
	if want := "3 codes were sent to a•••@x.example in 7 days."; heading != "Limit reached" || lead != (moment{Else: want}) {
		t.Errorf("%q, %+v", heading, lead)
	}
	_, lead = chinese.ruleExplanation(quota.State{Rule: quota.Rule{Scope: quota.Recipient, Limit: 2, Per: quota.Day}, Used: 2}, "a•••@x.example")
	if want := "今天已向 a•••@x.example 发送 2 次验证码。"; lead.Else != want {
		t.Errorf("%q, want %q", lead.Else, want)
	}
}
