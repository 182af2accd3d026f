package quota

import (
	"sync/atomic"
	"testing"
	"time"
)

// On Cluster a bucket that is only looked at is asked once, before any place is taken: who is refused there late would
// have to keep its ID from being admitted by a copy, and would do so in a bucket that minds no ID.
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

// A take that only looks has counted nothing that could have to be given back.
func TestQuota15LookingCountsNothingToGiveBack(t *testing.T) {
	r := redisWorld(t).Limiter.(*Redis)
	p, err := planTake(Request{ID: "one", Rules: []Rule{{Name: "failures", Scope: Failures, Limit: 1, Window: time.Hour}}, Buckets: map[Scope]string{Failures: "f"}})
	must(t, err)
	a, err := r.try(t.Context(), "one", take, 0, p)
	must(t, err)
	same(t, "admitted", a.Admitted, true)
	same(t, "added", a.added, false)
}
