package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

// Waits are rounded up, to the second or the minute, and validity is rounded down: neither is ever
// promised too early or for too long.
func TestDurationsInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{ // rounded up: as digits, in words, as a countdown; rounded down
		time.Microsecond:                 "0:01, 1 s, in 0:01; 1 s",
		59*time.Second + 1:               "1:00, 1 min, in 1:00; 59 s",
		61 * time.Second:                 "1:01, 2 min, in 1:01; 1 min",
		10*time.Minute - 1:               "10:00, 10 min, in 10:00; 9 min",
		10 * time.Minute:                 "10:00, 10 min, in 10 min; 10 min",
		59*time.Minute + time.Second:     "59:01, 1 h, in 1 h; 59 min",
		3*time.Hour + 19*time.Minute + 1: "199:01, 3 h 20 min, in 3 h 20 min; 3 h 19 min",
	} {
		_, countdown := english.countdown("Again", d, "")
		got := fmt.Sprintf("%s, %s, %s; %s", minutesAndSeconds(d), english.durationRoundedUp(d), countdown,
			english.durationRoundedDown(d))
		if got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestRulesAreNamedAfterWhatTheyAreAbout(t *testing.T) {
	for want, rule := range map[string]quota.Rule{
		"per minute": {Name: "minute", Window: time.Minute},
		"in 2 min":   {Name: "minute", Window: 2 * time.Minute}, // a name that lies
		"in 7 days":  {Name: "week", Window: 7 * 24 * time.Hour},
		"in 36 h":    {Name: "x", Window: 36 * time.Hour},
		"today":      {Name: "x", Days: 1, Window: 25 * time.Hour},
		"in 8 days":  {Name: "day", Days: 8, Window: 191 * time.Hour},
	} {
		if got := english.ruleName(rule); got != want {
			t.Errorf("%+v: %q, want %q", rule, got, want)
		}
	}
}

// A rule that is not the recipient's has a row while it refuses.
func TestPipsSayTheTruthBesideThem(t *testing.T) {
	rule := func(scope quota.Scope, limit int) quota.Rule {
		return quota.Rule{Scope: scope, Limit: limit, Window: time.Hour}
	}
	var got []string
	for _, row := range english.quotaPips([]quota.State{
		{Rule: rule(quota.Recipient, 1), Used: 1, RetryAfter: 41713 * time.Millisecond},
		{Rule: rule(quota.Recipient, 5), Used: 2},
		{Rule: rule(quota.Recipient, 5), Used: 5, RetryAfter: 28 * time.Minute},
		{Rule: rule(quota.IP, 3), Used: 3, RetryAfter: time.Minute},
		{Rule: rule(quota.Network, 3), Used: 2},
	}) {
		got = append(got, fmt.Sprint(row.Note, ", ", row.Spoken, ", ", row.Wait.MS))
	}
	want := []string{
		"next in 0:42, 1 of 1 used, 41713", "3 left, 2 of 5 used, 0",
		"next in 28 min, 5 of 5 used, 1680000", "next in 1:00, , 60000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The waits of rules of an hour or longer may be rounded up (see docs/PROMISES.md). Nothing is
// reckoned from them: no time of a send, which would lie ahead, and no duration that is longer than
// the rule's. By the calendar, the page says the period; "since midnight" would be about no
// send at all.
func TestNothingIsReckonedFromARoundedWait(t *testing.T) {
	hour := quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour}
	for want, c := range map[string]struct {
		rule quota.Rule
		ends time.Duration
	}{
		"Hourly limit reached: At most 1 code per hour goes to a•••@x.example.": {hour, time.Hour + 93*time.Second},
		"Daily limit reached: At most 5 codes in 24 hours go to a•••@x.example.": {
			quota.Rule{Name: "day", Limit: 5, Window: 24 * time.Hour}, 24*time.Hour + 93*time.Second,
		},
		"Limit reached: 1 code was sent to a•••@x.example in the last 15 min.": {
			quota.Rule{Name: "x", Limit: 1, Window: 30 * time.Minute}, 15 * time.Minute,
		},
		"Daily limit reached: 1 code was sent to a•••@x.example today.": {
			quota.Rule{Name: "x", Limit: 1, Per: quota.Day, Window: time.Hour}, time.Minute,
		},
		"Monthly limit reached: 1 code was sent to a•••@x.example this month.": {
			quota.Rule{Name: "x", Limit: 1, Per: quota.Month, Window: time.Hour}, time.Minute,
		},
		"Limit reached: 1 code was sent to a•••@x.example in 7 days.": {quota.Rule{Limit: 1, Days: 7}, time.Minute},
	} {
		c.rule.Scope = quota.Recipient
		heading, lead := english.ruleExplanation(quota.State{
			Rule: c.rule, Used: c.rule.Limit, ResetAfter: c.ends,
			RetryAfter: c.ends,
		}, "a•••@x.example")
		if got := heading + ": " + lead.Else; got != want || (lead.Pattern != "") != strings.Contains(want, "in the last") {
			t.Errorf("%q, want %q; with the time of a send %q", got, want, lead.Pattern)
		}
	}
	for wait, duration := range map[time.Duration]bool{
		59 * time.Minute: true, time.Hour: true,
		time.Hour + 93*time.Second: false,
	} {
		l := visit{t: english, blocking: quota.State{Rule: hour, Used: 1, ResetAfter: wait, RetryAfter: wait}}
		b := l.resendButton("SendCode")
		if strings.Contains(b.Wait.Long, "{d}") != duration || strings.Contains(b.Spoken.Long, "{d}") != duration ||
			!strings.Contains(b.Wait.Long, "{c}") || !strings.Contains(b.Spoken.Long, "{c}") {
			t.Errorf("%v: %q, %q", wait, b.Wait.Long, b.Spoken.Long)
		}
	}
}
