package quota

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// These bounds of a Rule's Limit, Window and Days are inclusive. The lower bound of Limit and Days
// is 1.
const (
	MaxLimit  = 100_000
	MinWindow = time.Second
	MaxWindow = 31 * 24 * time.Hour
	MaxDays   = 31
)

// namePattern needs no escaping in a structured-field string (RFC 9651) or a metric label.
const namePattern = `[a-z][a-z0-9_-]{0,31}`

var validName = regexp.MustCompile(`^` + namePattern + `$`).MatchString

// RuleError is a problem with one field of a Rule.
type RuleError struct {
	Index   int    // of the rule, from 0
	Rule    string // the rule's name as written
	Field   string // "name", "scope", "limit", "window", "per", "days" or "time_zone"
	Problem string
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("rule %d (%q): %s %s", e.Index+1, e.Rule, e.Field, e.Problem)
}

// Validate returns all problems of the name and, as the function Validate does, of the rules.
func (p Policy) Validate() error {
	var all []error
	if !validName(p.Name) {
		all = append(all, fmt.Errorf("policy name %q is not of the form %s", p.Name, namePattern))
	}
	return errors.Join(append(all, problems(p.Rules)...)...)
}

// Validate returns all problems of the rules, each a *RuleError, as one joined error. An empty list
// is an error too, because it would admit every event.
func Validate(rules []Rule) error { return errors.Join(problems(rules)...) }

func problems(rules []Rule) (all []error) {
	if len(rules) == 0 {
		return []error{errors.New("there is no rule")}
	}
	named := map[string]bool{}
	for i, r := range rules {
		wrong := func(field, problem string) {
			all = append(all, &RuleError{Index: i, Rule: r.Name, Field: field, Problem: problem})
		}
		if !validName(r.Name) {
			wrong("name", "is not of the form "+namePattern)
		} else if named[r.Name] {
			wrong("name", "is used before")
		}
		named[r.Name] = true
		if r.Scope == "" {
			wrong("scope", "is missing")
		}
		r.checkBounds(wrong)
	}
	return all
}

func (r Rule) checkBounds(wrong func(field, problem string)) {
	if r.Limit < 1 || r.Limit > MaxLimit {
		wrong("limit", fmt.Sprintf("%d is not between 1 and %d", r.Limit, MaxLimit))
	}
	if r.Days != 0 {
		r.checkDays(wrong)
		return
	}
	switch r.Per {
	case Hour, Day, Week, Month:
		if r.Window != 0 {
			wrong("window", "cannot be set with per")
		}
		return
	case "":
	default:
		wrong("per", fmt.Sprintf("%q is not one of hour, day, week and month", r.Per))
		return
	}
	if r.Zone != nil {
		wrong("time_zone", "needs per or days")
	}
	if r.Window < MinWindow || r.Window > MaxWindow || r.Window%time.Second != 0 {
		wrong("window", fmt.Sprintf("%v is not whole seconds within 1 s and 31 days", r.Window))
	}
}

func (r Rule) checkDays(wrong func(field, problem string)) {
	if r.Days < 1 || r.Days > MaxDays {
		wrong("days", fmt.Sprintf("%d is not between 1 and %d", r.Days, MaxDays))
	}
	if r.Per != "" {
		wrong("per", "cannot be set with days")
	}
	if r.Window != 0 {
		wrong("window", "cannot be set with days")
	}
}
