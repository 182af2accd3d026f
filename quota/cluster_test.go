package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// stepper stands between the limiter and the cluster: it gets the number of each script, from 1, and decides whether the script runs
// and whether its answer comes back.
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

// Two buckets whose rules admit two events each. A take of one ID runs four scripts: it looks at both, and takes in both.
var (
	twice      = []Rule{sliding(Recipient, 2, time.Hour), sliding(IP, 2, time.Hour)}
	takeSteps  = 4
	lookSteps  = 2
	clusterFor = slices.Sorted(maps.Values(buckets("ann", "office")))
)

func clusterLimiter(t *testing.T, hooks ...redis.Hook) (*Redis, *redis.ClusterClient) {
	client := newClient(t, sharedCluster(t)).(*redis.ClusterClient)
	flushAll(t, client)
	warm := patient(NewRedis(client, "q:"))
	for i := range 20 { // so that each node knows the scripts
		must(t, warm.Refund(t.Context(), "warm", Bucket("warm", fmt.Sprint(i))))
		must(t, second(warm.Take(t.Context(), one("warm", Bucket("take", fmt.Sprint(i))))))
	}
	hooked := newClient(t, sharedCluster(t))
	for _, h := range hooks {
		hooked.AddHook(h)
	}
	return patient(NewRedis(hooked, "q:")), client
}

func one(id, recipient string) Request {
	return Request{ID: id, Rules: twice[:1], Buckets: map[Scope]string{Recipient: recipient}}
}

func two(id, recipient, ip string) Request {
	return Request{ID: id, Rules: twice, Buckets: map[Scope]string{Recipient: recipient, IP: ip}}
}

// counted returns the IDs that count in a bucket.
func counted(t *testing.T, client redis.UniversalClient, r *Redis, bucket string) []string {
	ids, err := client.ZRangeByScore(t.Context(), r.Key(bucket), &redis.ZRangeBy{Min: "0", Max: "+inf"}).Result()
	must(t, err)
	slices.Sort(ids)
	return ids
}

// Whichever script dies, before or after it has run, nothing is admitted; a repeated Take admits the ID and counts it once, and a refund
// removes all of it.
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
				whole := patient(NewRedis(client, "q:"))
				ctx := t.Context()
				d, err := broken.Take(ctx, request("one", twice...))
				same(t, "unavailable", errors.Is(err, ErrUnavailable) && errors.Is(err, errKilled) && !d.Admitted, true)
				var held int
				for _, name := range clusterFor {
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
				for _, name := range clusterFor {
					sameList(t, "counted", counted(t, client, whole, name), []string{"one"})
				}
				must(t, whole.Refund(ctx, "one", clusterFor...))
				left, err := whole.Peek(ctx, request("", twice...))
				must(t, err)
				sameList(t, "left after a refund", remaining(left), []int{2, 2})
			})
		}
	}
}

// refusedLate makes a limiter whose take of twice is refused in the second bucket: two other events are counted there between its
// look and its take. around runs the script of that take.
func refusedLate(t *testing.T, around func(others *Redis, run func() error) error) (limiter, others *Redis, counts func(int) []string) {
	limiter, client := clusterLimiter(t, between(func(n int, run func() error) error {
		if n != takeSteps {
			return run()
		}
		must(t, others.Record(t.Context(), clusterFor[1], time.Hour, []Event{{"rival", time.Now()}, {"other", time.Now()}}))
		return around(others, run)
	}))
	others = patient(NewRedis(client, "q:"))
	return limiter, others, func(bucket int) []string { return counted(t, client, others, clusterFor[bucket]) }
}

func onlyRun(_ *Redis, run func() error) error { return run() }

// What the first bucket counted is refunded, and the answer is that of the second.
func TestQuota10ALateRefusalIsRefunded(t *testing.T) {
	limiter, others, _ := refusedLate(t, onlyRun)
	d, err := limiter.Take(t.Context(), request("late", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
	sameList(t, "violated", d.Violated(), []string{"recipient"})
	sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{2, 0})
	look, err := others.Peek(t.Context(), request("", twice...))
	must(t, err)
	sameList(t, "used", []int{look.Rules[0].Used, look.Rules[1].Used}, []int{2, 0})

	must(t, others.Refund(t.Context(), "rival", clusterFor[1]))
	same(t, "the ID is refunded", errors.Is(second(others.Take(t.Context(), request("late", twice...))), ErrRefunded), true)
	d, err = others.Take(t.Context(), request("new", twice...))
	must(t, err)
	same(t, "another is admitted", d.Admitted, true)
}

// A copy of a call that is being refused is not admitted in between: it would rely on a place that is about to be refunded.
func TestQuota10ACopyOfARefusedCallIsNotAdmitted(t *testing.T) {
	limiter, _, _ := refusedLate(t, func(others *Redis, run func() error) error {
		err := run()
		must(t, others.Refund(t.Context(), "rival", clusterFor[1])) // so that there is a place again
		d, copyErr := others.Take(t.Context(), request("late", twice...))
		same(t, "the copy is refunded", errors.Is(copyErr, ErrRefunded) && !d.Admitted, true)
		return err
	})
	d, err := limiter.Take(t.Context(), request("late", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
}

// A repetition that is refused late refunds nothing of an ID that an earlier call had admitted.
func TestQuota10ARefusedRepetitionKeepsWhatWasAdmitted(t *testing.T) {
	limiter, others, counts := refusedLate(t, onlyRun)
	must(t, others.Record(t.Context(), clusterFor[0], time.Hour, []Event{{"one", time.Now()}}))
	d, err := limiter.Take(t.Context(), request("one", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
	sameList(t, "counted still", counts(0), []string{"one"})
	must(t, second(others.Take(t.Context(), request("one", twice...)))) // there is no tombstone
}

func TestQuota10ALateRefusalIsRefundedAlsoWhenTheCallerHasGone(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	limiter, _, counts := refusedLate(t, func(_ *Redis, run func() error) error {
		defer leave()
		return run()
	})
	_, _ = limiter.Take(ctx, request("gone", twice...))
	sameList(t, "counted", counts(0), nil)
}

// Each bucket is on the clock of its node, and the decision on that of the recipient's.
func TestQuota10TheInstantIsThatOfTheRecipientsNode(t *testing.T) {
	client := newClient(t, sharedCluster(t))
	limiter := newRedis(client, "q:", toldClock)
	later := epoch.Add(90 * time.Second)
	client.AddHook(tellClock(func(key string) time.Time {
		if key == limiter.Key(ann()) {
			return later
		}
		return epoch
	}))
	flushAll(t, client)
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

// On Cluster a bucket that is only read is asked once, before anything is counted: a late refusal would need a tombstone there, and a
// bucket that is only read ignores IDs.
func TestQuota15OnClusterFailuresAreLookedAtOnce(t *testing.T) {
	var steps atomic.Int64
	limiter, client := clusterLimiter(t, between(func(_ int, run func() error) error {
		steps.Add(1)
		return run()
	}))
	rules := []Rule{sliding(Recipient, 2, time.Hour), {Name: "failures", Scope: Failures, Limit: 1, Window: time.Hour}}
	req := Request{ID: "one", Rules: rules, Buckets: map[Scope]string{Recipient: ann(), Failures: Bucket("failures", "ann")}}
	for range 2 { // the same again, too
		d, err := limiter.Take(t.Context(), req)
		must(t, err)
		same(t, "admitted", d.Admitted, true)
		sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{1, 0})
	}
	same(t, "scripts of both: two looks and one take each", steps.Load(), 6)
	same(t, "what stands in the bucket", client.Exists(t.Context(), limiter.Key(req.Buckets[Failures])).Val(), 0)
	must(t, limiter.Record(t.Context(), req.Buckets[Failures], time.Hour, []Event{{"x", time.Now()}}))
	req.ID = "two"
	d, err := limiter.Take(t.Context(), req)
	must(t, err)
	same(t, "admitted after a failure", d.Admitted, false)
	sameList(t, "violated", d.Violated(), []string{"failures"})
}

// A take of buckets that are only read has counted nothing that could be refunded.
func TestQuota15LookingCountsNothingToGiveBack(t *testing.T) {
	r := redisWorld(t).Limiter.(*Redis)
	p, err := planTake(Request{ID: "one", Rules: []Rule{{Name: "failures", Scope: Failures, Limit: 1, Window: time.Hour}},
		Buckets: map[Scope]string{Failures: "f"}})
	must(t, err)
	a, err := r.runTake(t.Context(), "one", take, 0, p)
	must(t, err)
	same(t, "admitted", a.Admitted, true)
	same(t, "added", a.added, false)
}

// Of many callers some have the same ID at the same time, and every tenth script dies before or after it ran. An ID that was admitted to
// one of them counts in all its buckets, and no bucket has more of them than its limit.
func TestQuota10NothingIsAdmittedOverTheLimitWhateverFails(t *testing.T) {
	const callers, calls, limit = 16, 40, 5
	rules := []Rule{sliding(Recipient, limit, time.Hour), sliding(IP, limit, time.Hour), sliding(App, limit, time.Hour)}
	limiter, client := clusterLimiter(t, between(func(_ int, run func() error) error {
		switch rand.IntN(20) {
		case 0:
			return errKilled
		case 1:
			_ = run()
			return errKilled
		}
		return run()
	}))
	var mu sync.Mutex
	admitted := map[string]map[string]bool{} // bucket, ID
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				n := rand.IntN(callers * calls / 4)
				req := Request{ID: fmt.Sprint(n), Rules: rules, Buckets: map[Scope]string{ // a repeated ID has the same buckets
					Recipient: Bucket("r", fmt.Sprint(n%6)), IP: Bucket("ip", fmt.Sprint(n/6%6)), App: Bucket("app", fmt.Sprint(n/36)),
				}}
				d, err := limiter.Take(t.Context(), req)
				if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, ErrRefunded) {
					t.Error(err)
				}
				if err != nil || !d.Admitted {
					continue
				}
				mu.Lock()
				for _, b := range req.Buckets {
					if admitted[b] == nil {
						admitted[b] = map[string]bool{}
					}
					admitted[b][req.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(admitted) < 12 {
		t.Errorf("only %d buckets admitted an event", len(admitted))
	}
	whole := patient(NewRedis(client, "q:"))
	for b, ids := range admitted {
		holds := counted(t, client, whole, b)
		if len(holds) > limit {
			t.Errorf("%s counts %d", b, len(holds))
		}
		for id := range ids {
			if !slices.Contains(holds, id) {
				t.Errorf("%s was admitted and does not count in %s", id, b)
			}
		}
	}
}
