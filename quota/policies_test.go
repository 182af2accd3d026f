package quota

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

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
