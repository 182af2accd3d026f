package quota_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/quota"
)

var policy = quota.Policy{Name: "default", Rules: []quota.Rule{
	{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
}}

// Take decides and counts in one step, here on a clock that the example moves.
func ExampleMemory_Take() {
	ctx, now := context.Background(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter := quota.NewMemory(func() time.Time { return now }, "process")
	request := quota.Request{
		Rules:   policy.Rules,
		Buckets: map[quota.Scope]string{quota.Recipient: quota.Bucket("shop", "email", policy.Name, "recipient", "4f1c9a")},
	}
	for i, at := range []int{0, 59, 60} {
		now = time.Date(2026, 1, 1, 12, 0, at, 0, time.UTC)
		request.ID = fmt.Sprint("send ", i) // in a service: a UUID
		d, err := limiter.Take(ctx, request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%2d s: admitted %t, next in %d s", at, d.Admitted, quota.Seconds(d.RetryAfter()))
		for _, s := range d.Rules {
			fmt.Printf(", %s: %d of %d left", s.Name, s.Remaining(), s.Limit)
		}
		fmt.Println()
	}
	// Output:
	//  0 s: admitted true, next in 60 s, minute: 0 of 1 left, hour: 4 of 5 left
	// 59 s: admitted false, next in 1 s, minute: 0 of 1 left, hour: 4 of 5 left
	// 60 s: admitted true, next in 60 s, minute: 0 of 1 left, hour: 3 of 5 left
}

// Record counts without looking: what happened elsewhere, even more than a limit. Recording it again changes nothing.
func ExampleMemory_Record() {
	ctx, now := context.Background(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter := quota.NewMemory(func() time.Time { return now }, "process")
	rule := quota.Rule{Name: "route", Scope: quota.Purpose, Limit: 2, Window: time.Second}
	bucket := quota.Bucket("route", "/search")
	events := []quota.Event{
		{ID: "a", At: now.Add(-900 * time.Millisecond)},
		{ID: "b", At: now.Add(-600 * time.Millisecond)},
		{ID: "c", At: now.Add(-200 * time.Millisecond)},
	}
	for range 2 {
		if err := limiter.Record(ctx, bucket, rule.Keep(), events); err != nil {
			fmt.Println(err)
		}
		d, err := limiter.Peek(ctx, quota.Request{Rules: []quota.Rule{rule}, Buckets: map[quota.Scope]string{quota.Purpose: bucket}})
		fmt.Println(d.Rules[0].Used, "of", rule.Limit, "used, next in", quota.Milliseconds(d.RetryAfter()), "ms", err)
	}
	// Output:
	// 3 of 2 used, next in 400 ms <nil>
	// 3 of 2 used, next in 400 ms <nil>
}

// A send that failed for good gives its place back, once; a late copy of its Take cannot spend it again.
func ExampleMemory_Refund() {
	ctx, limiter := context.Background(), quota.NewMemory(time.Now, "process")
	bucket := quota.Bucket("recipient", "ann")
	request := quota.Request{ID: "send 1", Rules: policy.Rules, Buckets: map[quota.Scope]string{quota.Recipient: bucket}}
	if _, err := limiter.Take(ctx, request); err != nil {
		fmt.Println(err)
	}
	if err := limiter.Refund(ctx, "send 1", bucket); err != nil {
		fmt.Println(err)
	}
	_, err := limiter.Take(ctx, request)
	fmt.Println(errors.Is(err, quota.ErrRefunded))
	request.ID = "send 2"
	d, err := limiter.Take(ctx, request)
	fmt.Println(d.Admitted, err)
	// Output:
	// true
	// true <nil>
}

// Peek shows what is left without counting, for a page that shows a countdown.
func ExampleMemory_Peek() {
	limiter := quota.NewMemory(time.Now, "process")
	request := quota.Request{Rules: policy.Rules, Buckets: map[quota.Scope]string{quota.Recipient: quota.Bucket("recipient", "ann")}}
	for range 2 {
		d, err := limiter.Peek(context.Background(), request)
		fmt.Println(d.Allowed(), d.Rules[1].Remaining(), err)
	}
	// Output:
	// true 5 <nil>
	// true 5 <nil>
}

// Evaluate explains a history that was found elsewhere, such as in the log of what was sent.
func ExampleEvaluate() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	history := []quota.Event{{ID: "send 1", At: now.Add(-50 * time.Minute)}, {ID: "send 2", At: now.Add(-18287 * time.Millisecond)}}
	d := quota.Evaluate(policy.Rules, map[quota.Scope][]quota.Event{quota.Recipient: history}, now)
	blocking, _ := d.Blocking()
	fmt.Println(d.Allowed(), blocking.Name, quota.Seconds(d.RetryAfter()), quota.Milliseconds(d.RetryAfter()))
	// Output: false minute 42 41713
}

// Validate finds every mistake at once, for a list to show before a service starts.
func ExampleValidate() {
	fmt.Println(quota.Validate([]quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 0, Window: time.Minute},
		{Name: "Hour", Scope: quota.Recipient, Limit: 5, Window: 90 * time.Millisecond},
	}))
	// Output:
	// rule 1 ("minute"): limit 0 is not within 1 and 100000
	// rule 2 ("Hour"): name is not of the form [a-z][a-z0-9_-]{0,31}
	// rule 2 ("Hour"): window 90ms is not whole seconds within 1 s and 31 days
}
