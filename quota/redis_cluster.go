package quota

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// On Cluster a script may touch one slot only, and each bucket has one of its own: so each is asked by itself, as a part
// of the plan, on the clock of its node (QUOTA-10).

// part is what a plan asks of one bucket.
type part struct {
	plan
	from []int // where its rules are in the plan
}

func (p plan) split() []part {
	parts := make([]part, len(p.buckets))
	for i := range parts {
		parts[i].buckets, parts[i].keeps, parts[i].asks = p.buckets[i:i+1], p.keeps[i:i+1], p.asks[i:i+1]
	}
	for i, b := range p.of {
		one := &parts[b]
		one.rules, one.of, one.from = append(one.rules, p.rules[i]), append(one.of, 0), append(one.from, i)
	}
	return parts
}

// merge puts the answers back together, not admitted. The instant is that of the recipient's bucket, which a log compares
// with those of the recipient's other events, or of the first rule's, if there is no recipient.
func (p plan) merge(parts []part, answers []answer) Decision {
	if answers == nil {
		return Decision{}
	}
	home := max(0, slices.IndexFunc(p.rules, func(r Rule) bool { return r.Scope == Recipient }))
	d := Decision{At: answers[p.of[home]].At, Clock: answers[0].Clock, Rules: make([]State, len(p.rules))}
	for i, part := range parts {
		for j, at := range part.from {
			d.Rules[at] = answers[i].Rules[j]
		}
		for scope, life := range answers[i].Incomplete {
			if d.Incomplete == nil {
				d.Incomplete = map[Scope]string{}
			}
			d.Incomplete[scope] = life
		}
	}
	return d
}

// takeEach counts the event in all buckets or, for all that callers can see, in none. It looks first, so that nearly every
// refusal writes nothing, and then takes one after the other, in the order that all callers go in.
//
// Who is refused at a bucket after all, because others were faster, gives back what it took before. The refusal itself
// leaves a tombstone in that bucket, in the same step: so no other call with this ID can be admitted there and rely on
// what is being given back. A failure gives nothing back, as after every failure the caller does: it repeats the ID, which
// finds its places again, or refunds it.
func (r *Redis) takeEach(ctx context.Context, id string, p plan) (Decision, error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.budget) // also when the caller has gone
	defer cancel()
	parts := p.split()
	answers, err := r.each(parts, func(one plan) (answer, error) { return r.try(ctx, id, look, 0, one) })
	if err != nil || slices.ContainsFunc(answers, func(a answer) bool { return !a.Admitted }) {
		return p.merge(parts, answers), err
	}
	seen := slices.Clone(answers)
	var mine []string
	for i, one := range parts {
		if one.keeps[0] == 0 {
			continue // only looked at
		}
		var keepOut time.Duration
		if len(mine) > 0 {
			keepOut = tombstone
		}
		answers[i], err = r.try(ctx, id, take, keepOut, one.plan)
		if errors.Is(err, ErrUnavailable) {
			return Decision{}, err
		}
		if err != nil || !answers[i].Admitted {
			_ = r.Refund(whole, id, mine...) // what this can't give back stays taken until its windows pass
			copy(answers, seen[:i])          // as it is without this call
			if err != nil {
				return Decision{}, err
			}
			return p.merge(parts, answers), nil
		}
		if answers[i].added {
			mine = append(mine, one.buckets[0])
		}
	}
	d := p.merge(parts, answers)
	d.Admitted, d.Incomplete = true, nil
	return d, nil
}

// each asks for all parts at once. It fails with the first of them that does.
func (r *Redis) each(parts []part, ask func(plan) (answer, error)) ([]answer, error) {
	answers := make([]answer, len(parts))
	err := atOnce(len(parts), func(i int) (err error) {
		answers[i], err = ask(parts[i].plan)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (r *Redis) writeEach(ctx context.Context, script *redis.Script, buckets []string, args []any) error {
	return atOnce(len(buckets), func(i int) error {
		_, err := r.run(ctx, script, buckets[i:i+1], args)
		return err
	})
}

// atOnce does n things at once, all of them, and gives the first error.
func atOnce(n int, do func(i int) error) error {
	var all errgroup.Group
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}
