package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// stepper comes between the limiter and the cluster: do is told of the n-th script, from 1, and decides
// whether it reaches the cluster and whether its answer comes back.
type stepper func(n int, run func() error) error

func between(do stepper) redis.Hook { return &stepHook{do: do} }

type stepHook struct {
	do stepper
	n  atomic.Int64
}

func (*stepHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *stepHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		err := h.do(int(h.n.Add(1)), func() error { return next(ctx, cmd) })
		cmd.SetErr(err)
		return err
	}
}

func (h *stepHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

var errKilled = errors.New("killed")

// Two buckets, each of whose rules lets two in. A take of one ID asks four scripts: it looks at both, and takes in both.
var (
	twice      = []Rule{sliding(Recipient, 2, time.Hour), sliding(IP, 2, time.Hour)}
	takeSteps  = 4
	lookSteps  = 2
	clusterFor = buckets("ann", "office")
)

func clusterLimiter(t *testing.T, hooks ...redis.Hook) (*Redis, *redis.ClusterClient) {
	client := sharedCluster(t)
	onEach(t, client, func(c *redis.Client) error { return c.FlushAll(t.Context()).Err() })
	warm := patient(NewRedis(client, "q:"))
	for i := range 20 { // so that each node knows the scripts
		must(t, warm.Refund(t.Context(), "warm", Bucket("warm", fmt.Sprint(i))))
		_, err := warm.Take(t.Context(), Request{ID: "warm", Rules: twice[:1],
			Buckets: map[Scope]string{Recipient: Bucket("take", fmt.Sprint(i))}})
		must(t, err)
	}
	hooked := sharedCluster(t)
	for _, h := range hooks {
		hooked.AddHook(h)
	}
	return patient(NewRedis(hooked, "q:")), client
}

// counted is which IDs count in a bucket.
func counted(t *testing.T, client redis.UniversalClient, r *Redis, bucket string) []string {
	ids, err := client.ZRangeByScore(t.Context(), r.Key(bucket), &redis.ZRangeBy{Min: "0", Max: "+inf"}).Result()
	must(t, err)
	slices.Sort(ids)
	return ids
}

// QUOTA-10: whichever script dies, before or after it has run, nothing is admitted, no place is given away, the same ID
// is admitted when it is repeated and counts once, and a refund leaves nothing behind.
func TestQuota10WhateverFailsBetweenTwoSlotsGivesNothingAway(t *testing.T) {
	for n := 1; n <= takeSteps; n++ {
		for _, reaches := range []bool{false, true} {
			t.Run(fmt.Sprintf("script %d, reached %v", n, reaches), func(t *testing.T) {
				broken, client := clusterLimiter(t, between(func(i int, run func() error) error {
					if i != n {
						return run()
					}
					if reaches {
						must(t, run())
					}
					return errKilled
				}))
				whole := NewRedis(client, "q:")
				ctx, names := t.Context(), slices.Sorted(maps.Values(clusterFor))
				d, err := broken.Take(ctx, request("one", twice...))
				same(t, "unavailable", errors.Is(err, ErrUnavailable) && errors.Is(err, errKilled) && !d.Admitted, true)
				var held int
				for _, name := range names {
					held += len(counted(t, client, whole, name))
				}
				want := max(0, n-lookSteps-1) // those of the scripts that ran
				if n > lookSteps && reaches {
					want++
				}
				same(t, "places taken", held, want)

				again, err := whole.Take(ctx, request("one", twice...))
				must(t, err)
				same(t, "admitted when repeated", again.Admitted, true)
				for _, name := range names {
					sameList(t, "counted", counted(t, client, whole, name), []string{"one"})
				}
				must(t, whole.Refund(ctx, "one", names...))
				sameList(t, "left after a refund", remaining(must2(whole.Peek(ctx, request("", twice...)))), []int{2, 2})
			})
		}
	}
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Others are faster between the look and the take of the second bucket: what the first one took is given back, and the
// answer is that of the second.
func TestQuota10WhoIsRefusedLateGivesBackWhatItTook(t *testing.T) {
	second := slices.Sorted(maps.Values(clusterFor))[1]
	var rival *Redis
	limiter, client := clusterLimiter(t, between(func(n int, run func() error) error {
		if n == takeSteps {
			must(t, rival.Record(t.Context(), second, time.Hour, []Event{{"rival", time.Now()}, {"other", time.Now()}}))
		}
		return run()
	}))
	rival = NewRedis(client, "q:")
	d, err := limiter.Take(t.Context(), request("late", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
	sameList(t, "violated", d.Violated(), []string{"recipient"})
	sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{2, 0})
	look, err := rival.Peek(t.Context(), request("", twice...))
	must(t, err)
	sameList(t, "used", []int{look.Rules[0].Used, look.Rules[1].Used}, []int{2, 0})

	must(t, rival.Refund(t.Context(), "rival", second))
	_, err = rival.Take(t.Context(), request("late", twice...))
	same(t, "the ID is refunded", errors.Is(err, ErrRefunded), true)
	d, err = rival.Take(t.Context(), request("new", twice...))
	must(t, err)
	same(t, "another is admitted", d.Admitted, true)
}

// A copy of a call that is being refused is not admitted in between: it would rely on a place that is being given back.
func TestQuota10ACopyOfARefusedCallIsNotAdmitted(t *testing.T) {
	second := slices.Sorted(maps.Values(clusterFor))[1]
	var other *Redis
	limiter, client := clusterLimiter(t, between(func(n int, run func() error) error {
		if n != takeSteps {
			return run()
		}
		must(t, other.Record(t.Context(), second, time.Hour, []Event{{"rival", time.Now()}, {"more", time.Now()}}))
		err := run()
		must(t, other.Refund(t.Context(), "rival", second)) // so there is a place again
		d, copyErr := other.Take(t.Context(), request("late", twice...))
		same(t, "the copy is refunded", errors.Is(copyErr, ErrRefunded) && !d.Admitted, true)
		return err
	}))
	other = NewRedis(client, "q:")
	d, err := limiter.Take(t.Context(), request("late", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
}

// A repetition of an admitted ID, which one bucket has forgotten and in which others were faster, takes nothing back of
// what was admitted.
func TestQuota10ARefusedRepetitionKeepsWhatWasAdmitted(t *testing.T) {
	names := slices.Sorted(maps.Values(clusterFor))
	var rival *Redis
	limiter, client := clusterLimiter(t, between(func(n int, run func() error) error {
		if n == takeSteps {
			must(t, rival.Record(t.Context(), names[1], time.Hour, []Event{{"rival", time.Now()}, {"other", time.Now()}}))
		}
		return run()
	}))
	rival = NewRedis(client, "q:")
	must(t, rival.Record(t.Context(), names[0], time.Hour, []Event{{"one", time.Now()}}))
	d, err := limiter.Take(t.Context(), request("one", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
	sameList(t, "counted still", counted(t, client, rival, names[0]), []string{"one"})
	_, err = rival.Take(t.Context(), request("one", twice...))
	must(t, err) // nothing was buried
}

func TestQuota10ARefusalOnClusterWritesNothing(t *testing.T) {
	limiter, client := clusterLimiter(t)
	must(t, limiter.Record(t.Context(), ann(), time.Hour, []Event{{"a", time.Now()}, {"b", time.Now()}}))
	all := func() map[string]string {
		keys := map[string]string{}
		onEach(t, client, func(c *redis.Client) error {
			for key, value := range snapshot(t, c) {
				keys[key] = value
			}
			return nil
		})
		return keys
	}
	before := all()
	for i := range 5 {
		d, err := limiter.Take(t.Context(), request(fmt.Sprint(i), twice...))
		must(t, err)
		same(t, "admitted", d.Admitted, false)
	}
	if after := all(); !maps.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

// Each bucket is on the clock of its node, and the decision on that of the recipient's.
func TestQuota10TheInstantIsThatOfTheRecipientsNode(t *testing.T) {
	client := sharedCluster(t)
	limiter := newRedis(client, "q:", toldClock)
	later := epoch.Add(90 * time.Second)
	client.AddHook(tellClock(func(key string) time.Time {
		if key == limiter.Key(ann()) {
			return later
		}
		return epoch
	}))
	onEach(t, client, func(c *redis.Client) error { return c.FlushAll(t.Context()).Err() })
	for _, rules := range [][]Rule{{twice[0], twice[1]}, {twice[1], twice[0]}} {
		d, err := limiter.Peek(t.Context(), request("", rules...))
		must(t, err)
		same(t, "instant of a look", d.At, later)
		d, err = limiter.Take(t.Context(), request(rules[0].Name, rules...))
		must(t, err)
		same(t, "admitted", d.Admitted, true)
		same(t, "instant", d.At, later)
	}
	d, err := limiter.Take(t.Context(), request("three", twice...))
	must(t, err)
	same(t, "instant of a refusal", d.At, later)
	sameList(t, "waits", []time.Duration{d.Rules[0].RetryAfter, d.Rules[1].RetryAfter}, []time.Duration{time.Hour, time.Hour})
	r := sliding(Recipient, 1, time.Hour)
	r.Scope = App
	d, err = limiter.Take(t.Context(), Request{ID: "x", Rules: []Rule{r, twice[1]},
		Buckets: map[Scope]string{App: Bucket("app"), IP: Bucket("elsewhere")}})
	must(t, err)
	same(t, "instant without a recipient", d.At, epoch)
}

func TestQuota10NoCallTouchesTwoSlots(t *testing.T) {
	limiter, client := clusterLimiter(t)
	ctx, rules := t.Context(), []Rule{}
	all := map[Scope]string{}
	for _, scope := range scopes {
		rules, all[scope] = append(rules, sliding(scope, 5, time.Minute)), Bucket(string(scope))
	}
	for _, err := range []error{
		second(limiter.Take(ctx, Request{ID: "one", Rules: rules, Buckets: all})),
		second(limiter.Peek(ctx, Request{Rules: rules, Buckets: all})),
		limiter.Refund(ctx, "one", slices.Collect(maps.Values(all))...),
		limiter.Reset(ctx, slices.Collect(maps.Values(all))...),
	} {
		must(t, err)
	}
	onEach(t, client, func(c *redis.Client) error {
		if errs := c.Info(ctx, "errorstats").Val(); strings.Contains(errs, "CROSSSLOT") {
			t.Errorf("%s", errs)
		}
		return nil
	})
}

func second[T any](_ T, err error) error { return err }
