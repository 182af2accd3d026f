package quota

import (
	"fmt"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	rule := func(name string, scope Scope, limit int, window time.Duration) Rule {
		return Rule{Name: name, Scope: scope, Limit: limit, Window: window}
	}
	by := func(r Rule) Rule { r.Name, r.Scope, r.Limit = "a", Recipient, 1; return r }
	for _, c := range []struct {
		rule       Rule
		wantFields string // of the errors, each followed by a space
	}{
		{rule("a", IP, 1, time.Second), ""},
		{rule("z234567890123456789012345678901_", Recipient, 100_000, 744*time.Hour), ""},
		{rule("a-b", IP, 2, 90*time.Second), ""},
		{rule("a", "planet", 0, time.Minute), "limit "},
		{rule("a", IP, 100_001, time.Second-1), "limit window "},
		{rule("", "", -1, 0), "name scope limit window "},
		{rule("1st", Recipient, 1, 744*time.Hour+time.Second), "name window "},
		{rule("a23456789012345678901234567890123", Recipient, 1, 1500*time.Millisecond), "name window "},
		{rule("new\nline", Recipient, 1, -time.Minute), "name window "},
		{by(Rule{Per: Month, Zone: time.UTC}), ""},
		{by(Rule{Per: Week}), ""},
		{by(Rule{Days: 1}), ""},
		{by(Rule{Days: 31, Zone: time.UTC}), ""},
		{by(Rule{Per: "fortnight"}), "per "},
		{by(Rule{Per: Day, Window: time.Hour}), "window "},
		{by(Rule{Window: time.Hour, Zone: time.UTC}), "time_zone "},
		{by(Rule{Days: 32}), "days "},
		{by(Rule{Days: -1}), "days "},
		{by(Rule{Days: 7, Per: Day}), "per "},
		{by(Rule{Days: 7, Window: time.Hour}), "window "},
	} {
		got := ""
		for _, err := range problems([]Rule{c.rule}) {
			got += err.(*RuleError).Field + " "
		}
		same(t, fmt.Sprintf("%+v", c.rule), got, c.wantFields)
	}
	must(t, Policy{Name: "default", Rules: defaults}.Validate())
	twice := []Rule{rule("minute", IP, 1, time.Minute), rule("minute", IP, 0, time.Minute)}
	same(t, "text", Policy{Name: "Default", Rules: twice}.Validate().Error(),
		`policy name "Default" is not of the form [a-z][a-z0-9_-]{0,31}
rule 2 ("minute"): name is used before
rule 2 ("minute"): limit 0 is not between 1 and 100000`)
	same(t, "no rule at all is valid", Validate(nil) == nil, false)
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

	observed, recorded := state("observed", 9), state("recorded", 0)
	observed.Observe, observed.Limit, observed.Used, recorded.Recorded = true, 1, 2, true
	mixed := Decision{Admitted: true, Rules: []State{observed, recorded, state("b", 2)}}
	sameList(t, "observed", mixed.Observed(), []string{"observed"})
	sameList(t, "an observing rule violates nothing", mixed.Violated(), []string{"b"})
	same(t, "nor blocks", mixed.RetryAfter(), 2)
	same(t, "public", len(mixed.Public().Rules), 1)
	mixed.Rules[1].RetryAfter = 1
	same(t, "public when a recorded rule blocks", len(mixed.Public().Rules), 2)
	mixed.Rules[0].Used = 1
	sameList(t, "observed with a place for the event itself", mixed.Observed(), nil)
}
