package quota

import (
	"fmt"
	"slices"
	"time"
)

const maxIDBytes = 64

// tombstoneLife is longer than the time in which a late copy of a call may arrive, for example
// because the Redis client has repeated the call.
const tombstoneLife = time.Minute

// resetSlack protects a reset from a Record whose caller read the events before the reset. It must
// be longer than the time from that read to the Record.
const resetSlack = 10 * time.Second

// requestPlan is a Request that planTake or planPeek has checked.
type requestPlan struct {
	rules    []Rule          // Request.Rules, then Request.Also
	deciding int             // how many rules decide; they are the first in rules
	buckets  []string        // each once, sorted, so that all callers lock and take them in the same order
	keeps    []time.Duration // how long each bucket keeps events; 0: it is only read
	bucketOf []int           // each rule's bucket, by index
}

// planTake fails if a rule has no bucket, unlike planPeek. Error: ErrBadRequest.
func planTake(req Request) (requestPlan, error) {
	if err := checkID(req.ID); err != nil {
		return requestPlan{}, err
	}
	if len(req.Rules) == 0 {
		return requestPlan{}, fmt.Errorf("%w: no rules", ErrBadRequest)
	}
	p := requestPlan{rules: append(slices.Clip(req.Rules), req.Also...), deciding: len(req.Rules)}
	for _, r := range p.rules {
		if req.Buckets[r.Scope] == "" {
			return requestPlan{}, fmt.Errorf("%w: rule %q has no bucket for scope %q", ErrBadRequest, r.Name, r.Scope)
		}
	}
	return p.withBuckets(req.Buckets)
}

// planPeek leaves out the rules that have no bucket. Error: ErrBadRequest.
func planPeek(req Request) (requestPlan, error) {
	unknown := func(r Rule) bool { return req.Buckets[r.Scope] == "" }
	rules := slices.DeleteFunc(slices.Clone(req.Rules), unknown)
	p := requestPlan{deciding: len(rules), rules: append(rules, slices.DeleteFunc(slices.Clone(req.Also), unknown)...)}
	return p.withBuckets(req.Buckets)
}

func (p requestPlan) withBuckets(buckets map[Scope]string) (requestPlan, error) {
	p.bucketOf, p.buckets = make([]int, len(p.rules)), make([]string, 0, len(p.rules))
	for i, r := range p.rules {
		var err error
		r.checkBounds(func(field, problem string) {
			err = fmt.Errorf("%w: %w", ErrBadRequest,
				&RuleError{Index: i, Rule: r.Name, Field: field, Problem: problem})
		})
		if err != nil {
			return requestPlan{}, err
		}
		p.buckets = append(p.buckets, buckets[r.Scope])
	}
	slices.Sort(p.buckets)
	p.buckets = slices.Compact(p.buckets)
	p.keeps = make([]time.Duration, len(p.buckets))
	for i, r := range p.rules {
		b, _ := slices.BinarySearch(p.buckets, buckets[r.Scope])
		p.bucketOf[i] = b
		if i < p.deciding && !r.Recorded {
			p.keeps[b] = max(p.keeps[b], r.Keep())
		}
	}
	return p, nil
}

// split moves the states of Request.Also from d.Rules to d.Also.
func (p requestPlan) split(d Decision) Decision {
	if len(d.Rules) > p.deciding {
		d.Rules, d.Also = d.Rules[:p.deciding:p.deciding], d.Rules[p.deciding:]
	}
	return d
}

func checkID(id string) error {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Errorf("%w: an ID has 1 to %d bytes, not %d", ErrBadRequest, maxIDBytes, len(id))
	}
	return nil
}

func checkBuckets(buckets []string) error {
	if slices.Contains(buckets, "") {
		return fmt.Errorf("%w: a bucket has no name", ErrBadRequest)
	}
	return nil
}

func checkRecord(bucket string, keep time.Duration, events []AgedEvent) error {
	if keep < MinWindow || keep > MaxWindow+maxTurnBack {
		return fmt.Errorf("%w: events can be kept for 1 s to %v, and not for %v", ErrBadRequest, MaxWindow+maxTurnBack, keep)
	}
	for _, e := range events {
		if err := checkID(e.ID); err != nil {
			return err
		}
	}
	return checkBuckets([]string{bucket})
}
