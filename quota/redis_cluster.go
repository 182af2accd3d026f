package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// On Cluster a script may touch only one slot, and the buckets of a request are spread over the
// slots. Therefore a plan is split by bucket, and each part is decided on the clock of its node.

// planPart is the part of a plan for one bucket. Its rules are in the plan's order.
type planPart struct {
	requestPlan
	ruleIndexes []int // of the part's rules in the whole plan
}

func (p requestPlan) byBucket() []planPart {
	parts := make([]planPart, len(p.buckets))
	for i := range parts {
		parts[i].buckets, parts[i].keeps = p.buckets[i:i+1], p.keeps[i:i+1]
	}
	for i, b := range p.bucketOf {
		one := &parts[b]
		one.rules, one.bucketOf, one.ruleIndexes = append(one.rules, p.rules[i]), append(one.bucketOf, 0),
			append(one.ruleIndexes, i)
		if i < p.deciding {
			one.deciding++
		}
	}
	return parts
}

// merge takes At from the first bucket's answer, and leaves Admitted to takeEach.
func (p requestPlan) merge(parts []planPart, answers []scriptAnswer) Decision {
	if answers == nil {
		return Decision{}
	}
	d := Decision{At: answers[0].At, Rules: make([]State, len(p.rules))}
	for i, part := range parts {
		for j, at := range part.ruleIndexes {
			d.Rules[at] = answers[i].Rules[j]
		}
	}
	return d
}

// takeEach counts the event in all buckets or, as far as callers can see, in none. It peeks at all
// of them first, so that most refusals write nothing, and then takes one after another, in the same
// order for all callers.
//
// A bucket may refuse after all, because other events came first or because it has a tombstone of
// the ID. Then takeEach refunds the event in the buckets to which this call added it. If there are
// any, the refusing bucket gets a tombstone too, so that no other call with this ID gets in during
// the refunds. After ErrUnavailable nothing is refunded: the caller repeats the Take or refunds the
// ID.
func (r *Redis) takeEach(ctx context.Context, id string, p requestPlan) (Decision, error) {
	refundCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Budget) // for the refund, even if ctx has ended
	defer cancel()
	parts := p.byBucket()
	answers, err := r.askEach(parts, func(one requestPlan) (scriptAnswer, error) { return r.runTake(ctx, id, modeLook, 0, one) })
	if err != nil || slices.ContainsFunc(answers, func(a scriptAnswer) bool { return !a.Admitted }) {
		return p.merge(parts, answers), err
	}
	before := slices.Clone(answers)
	var mine []string
	for i, one := range parts {
		if one.keeps[0] == 0 {
			continue // only read
		}
		var keepOut time.Duration
		if len(mine) > 0 {
			keepOut = tombstoneLife
		}
		answers[i], err = r.runTake(ctx, id, modeTake, keepOut, one.requestPlan)
		if errors.Is(err, ErrUnavailable) {
			return Decision{}, err
		}
		if err != nil || !answers[i].Admitted {
			_ = r.Refund(refundCtx, id, mine...) // if this fails, the event counts until its windows end
			copy(answers, before[:i])            // the states without this call's event
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
	d.Admitted = true
	return d, nil
}

func (r *Redis) askEach(parts []planPart, ask func(requestPlan) (scriptAnswer, error)) ([]scriptAnswer, error) {
	answers := make([]scriptAnswer, len(parts))
	err := r.concurrently(len(parts), func(i int) (err error) {
		answers[i], err = ask(parts[i].requestPlan)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// nodePause is how long no call is sent to a node that couldn't be reached. answerLife is how long
// a node counts as answering after its last answer, because a node that left the Cluster gets no
// more calls.
const nodePause, answerLife = time.Second, time.Minute

// nodeHealth records, by address, which nodes of a Cluster answer, so that a dead node doesn't
// delay calls to others.
type nodeHealth struct {
	mu sync.Mutex
	at map[string]nodeState
}

type nodeState struct {
	answered time.Time // when its last call succeeded; zero: that call failed
	paused   time.Time // end of the pause
}

// isPaused reports whether no call may go to the node at addr. After a pause it lets one caller
// through and begins the next pause, so that only this call, which may hang, tries the node. If the
// call succeeds, note ends the pause.
func (n *nodeHealth) isPaused(addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	x, now := n.at[addr], time.Now()
	paused := now.Before(x.paused)
	if !paused && !x.paused.IsZero() {
		x.paused = now.Add(nodePause)
		n.at[addr] = x
	}
	return paused
}

func (n *nodeHealth) othersAnswer(addr string) (answer bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, x := range n.at {
		answer = answer || other != addr && time.Since(x.answered) < answerLife
	}
	return answer
}

// note stores the outcome of a call, and pauses the node if it couldn't be reached.
func (n *nodeHealth) note(addr string, err error) {
	var x nodeState
	if err == nil {
		x.answered = time.Now()
	} else if _, broken := errors.AsType[net.Error](err); broken || errors.Is(err, io.EOF) ||
		redis.HasErrorPrefix(err, "CLUSTERDOWN") {
		x.paused = time.Now().Add(nodePause)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = map[string]nodeState{}
	}
	n.at[addr] = x
}

// runOnNode runs a script on the node of its keys, which must be in one slot, unless the node is
// paused. If another node still answers, the error wraps ErrPartly.
func (r *Redis) runOnNode(ctx context.Context, script *redis.Script, keys []string, args []any) (cmd *redis.Cmd,
	err error,
) {
	master, err := r.cluster.MasterForKey(ctx, keys[0])
	if err != nil {
		return nil, err
	}
	addr := master.Options().Addr
	err = fmt.Errorf("%s could not be reached less than %v ago", addr, nodePause)
	if !r.health.isPaused(addr) {
		cmd = script.Run(ctx, r.client, keys, args...)
		if err = cmd.Err(); !errors.Is(err, context.Canceled) {
			r.health.note(addr, err)
		}
	}
	if err != nil && r.health.othersAnswer(addr) {
		err = fmt.Errorf("%w: %w", ErrPartly, err)
	}
	return cmd, err
}

func (r *Redis) concurrently(n int, do func(i int) error) error {
	var all errgroup.Group
	for i := range n {
		all.Go(func() (err error) {
			defer r.recoverTo(func() { err = errPanic })
			return do(i)
		})
	}
	return all.Wait()
}
