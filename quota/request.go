package quota

import (
	"fmt"
	"slices"
	"time"
)

const maxID = 64 // bytes

// tombstone is how long a refunded ID stays refunded: longer than any copy of a call can be under way.
const tombstone = time.Minute

// exact is the last µs since 1970 up to which a double, and so a score, is exact; in 2255.
const exact = int64(1) << 53

// plan is a request made ready to run.
type plan struct {
	rules   []Rule
	buckets []string        // each once, sorted: all callers go through them in one order
	keeps   []time.Duration // for how long each bucket keeps events; 0 where it is only looked at
	of      []int           // bucket of each rule
	asks    []ask           // of each bucket, whether it is complete
}

// ask is whether a bucket has all events of the time that the rules of a scope need. Without a scope nothing is asked.
type ask struct {
	scope  Scope
	need   time.Duration
	source string
}

// planTake refuses a request that Take could only run by leaving out a rule.
func planTake(req Request) (plan, error) {
	if err := checkID(req.ID); err != nil {
		return plan{}, err
	}
	if len(req.Rules) == 0 {
		return plan{}, fmt.Errorf("%w: no rules", ErrBadRequest)
	}
	for _, r := range req.Rules {
		if req.Buckets[r.Scope] == "" {
			return plan{}, fmt.Errorf("%w: rule %q has no bucket for scope %q", ErrBadRequest, r.Name, r.Scope)
		}
	}
	return newPlan(req.Rules, req)
}

// planPeek leaves out the rules that have no bucket.
func planPeek(req Request) (plan, error) {
	rules := slices.DeleteFunc(slices.Clone(req.Rules), func(r Rule) bool { return req.Buckets[r.Scope] == "" })
	return newPlan(rules, req)
}

func newPlan(rules []Rule, req Request) (plan, error) {
	p, buckets := plan{rules: rules, of: make([]int, len(rules)), buckets: make([]string, 0, len(rules))}, req.Buckets
	for i, r := range rules {
		var err error
		r.bounds(func(field, problem string) {
			err = fmt.Errorf("%w: %w", ErrBadRequest, &RuleError{Index: i, Rule: r.Name, Field: field, Problem: problem})
		})
		if err != nil {
			return plan{}, err
		}
		p.buckets = append(p.buckets, buckets[r.Scope])
	}
	slices.Sort(p.buckets)
	p.buckets = slices.Compact(p.buckets)
	p.keeps, p.asks = make([]time.Duration, len(p.buckets)), make([]ask, len(p.buckets))
	for i, r := range rules {
		b, _ := slices.BinarySearch(p.buckets, buckets[r.Scope])
		p.of[i] = b
		if r.Scope.Counted() {
			p.keeps[b] = max(p.keeps[b], r.Keep())
		}
		if source, ok := req.Logged[r.Scope]; ok {
			p.asks[b] = ask{r.Scope, max(p.asks[b].need, r.Keep()), source}
		}
	}
	return p, nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: an ID has 1 to %d bytes, not %d", ErrBadRequest, maxID, len(id))
	}
	return nil
}

func checkBuckets(buckets []string) error {
	if slices.Contains(buckets, "") {
		return fmt.Errorf("%w: a bucket without a name", ErrBadRequest)
	}
	return nil
}

// checkRecord refuses an instant so far off that it would block a bucket for ever.
func checkRecord(bucket string, keep time.Duration, events []Event) error {
	if keep < MinWindow || keep > MaxWindow+slack {
		return fmt.Errorf("%w: keep %v is not within 1 s and %v", ErrBadRequest, keep, MaxWindow+slack)
	}
	for _, e := range events {
		if err := checkID(e.ID); err != nil {
			return err
		}
		if e.At.After(instant(exact)) {
			return fmt.Errorf("%w: an event in the year %d", ErrBadRequest, e.At.Year())
		}
	}
	return checkBuckets([]string{bucket})
}
