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

// On Cluster a script may touch only one slot, and each bucket is in its own slot. So a plan is
// split into one part for each bucket. Each part is decided on the clock of its node.

// planPart is the part of a plan that concerns one bucket. Its rules are in the plan's order.
type planPart struct {
	requestPlan
	ruleIndexes []int // indexes of the part's rules in the whole plan
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

// merge combines the answers of the parts into one Decision. At is the instant from the answer of
// the first bucket. merge leaves Admitted false; takeEach sets it when all buckets have counted the
// event.
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

// takeEach counts the event in all buckets or, as far as callers can see, in no bucket. It first
// peeks at all buckets, so that most refusals write nothing. Then it counts the event in one bucket
// after another. All callers use the same order of buckets.
//
// A bucket may still refuse, because other events came first, or because the bucket has a tombstone
// of the ID (a mark that admits no event with this ID). Then takeEach refunds the event in the
// buckets to which this call has added it. If there are such buckets, the bucket that refuses also
// gets a tombstone. So no other call with this ID is admitted there during the refunds. After
// ErrUnavailable, nothing is refunded, and the caller must repeat the Take or refund the ID.
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

// askEach calls the function ask for all parts concurrently, and waits for all calls. Error: the
// first error of a call.
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

// nodePause is how long no call is sent to a node that could not be reached. heardFor is how long a
// node counts as answering: one that left the Cluster is not asked again.
const nodePause, heardFor = time.Second, time.Minute

// nodeHealth remembers, by address, which nodes of a Cluster answer, so that an unreachable node
// does not delay calls to other nodes.
type nodeHealth struct {
	mu sync.Mutex
	at map[string]nodeState
}

type nodeState struct {
	answered time.Time // when its last call succeeded; zero: the last call failed
	paused   time.Time // end of the node's pause
}

// isPaused reports whether the node at addr is paused, so that no call may be sent to it. The first
// call of isPaused after a pause reports that the node is not paused, and begins the next pause. So
// during this pause only that caller tries the node, which may hang. If the try succeeds, the
// method note ends the pause.
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

// othersAnswer reports whether another node than that at addr has answered lately.
func (n *nodeHealth) othersAnswer(addr string) (answer bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, x := range n.at {
		answer = answer || other != addr && time.Since(x.answered) < heardFor
	}
	return answer
}

// note stores the outcome of a call to the node at addr, and pauses the node if it could not be
// reached.
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

// runOnNode runs a script on the node that has the script's keys. All keys must be in one slot. If
// the node is paused, the script does not run. If another node still answers, the error of
// runOnNode wraps ErrPartly.
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

// concurrently calls do(0) to do(n-1) concurrently, waits for all, and returns the first error.
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
