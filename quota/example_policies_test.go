package quota_test

import (
	"context"
	"fmt"
	"time"

	"sendcode/quota"
)

// These are the policies of docs/policies.md, each on a clock that the example moves. The page
// shows lines of these examples.

// at returns a clock that starts at noon in UTC, and a function that moves the clock.
func at() (now func() time.Time, pass func(time.Duration)) {
	t := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time { return t }, func(d time.Duration) { t = t.Add(d) }
}

// The limits are 1 code in 60 s, 5 in an hour and 10 in 24 h for an address. The answer names the
// limit that refused, and the remaining milliseconds.
func ExampleMemory_Take_codes() {
	ctx := context.Background()
	now, pass := at()
	limiter := quota.NewMemory(now)

	codes := []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}
	ask := func(id string) {
		d, err := limiter.Take(ctx, quota.Request{
			ID: id, Rules: codes,
			Buckets: map[quota.Scope]string{quota.Recipient: quota.Bucket("email", "ann@example.com")},
		})
		worst, blocked := d.Blocking()
		fmt.Println(d.Admitted, blocked, worst.Name, quota.Milliseconds(d.RetryAfter()), err)
	}

	ask("send 1")
	pass(18287 * time.Millisecond)
	ask("send 2")
	for i := range 4 {
		pass(time.Minute)
		ask(fmt.Sprint("send ", 3+i))
	}
	// Output:
	// true true minute 60000 <nil>
	// false true minute 41713 <nil>
	// true true minute 60000 <nil>
	// true true minute 60000 <nil>
	// true true minute 60000 <nil>
	// true true hour 3341713 <nil>
}

// A route key may make 1,000 requests in any second. A gateway can look without counting (Peek),
// count without looking (Record), or do both (Take).
func ExampleMemory_Record_gateway() {
	ctx := context.Background()
	now, pass := at()
	limiter := quota.NewMemory(now)

	rule := quota.Rule{Name: "route", Scope: quota.Purpose, Limit: 1000, Window: time.Second}
	bucket := quota.Bucket("route", "GET /v1/search")
	request := quota.Request{Rules: []quota.Rule{rule}, Buckets: map[quota.Scope]string{quota.Purpose: bucket}}
	look := func() (quota.Decision, error) { return limiter.Peek(ctx, request) }
	both := func(id string) (quota.Decision, error) {
		r := request
		r.ID = id
		return limiter.Take(ctx, r)
	}
	count := func(id string) error {
		return limiter.Record(ctx, bucket, rule.Keep(), []quota.AgedEvent{{ID: id}})
	}

	for i := range 999 {
		if d, err := both(fmt.Sprint("call ", i)); !d.Admitted {
			fmt.Println(i, err)
		}
	}
	pass(250 * time.Millisecond)
	d, err := look()
	fmt.Println("left:", d.Rules[0].Remaining(), err)
	fmt.Println("counted:", count("internal call"))
	d, err = both("call 1000")
	fmt.Println("admitted:", d.Admitted, "wait:", quota.Milliseconds(d.RetryAfter()), "ms", err)
	// Output:
	// left: 1 <nil>
	// counted: <nil>
	// admitted: false wait: 750 ms <nil>
}

// A user may have at most 1 event in a calendar day, and 3 on any 7 dates.
func ExampleRule_dates() {
	ctx := context.Background()
	now, pass := at()
	limiter := quota.NewMemory(now)

	shanghai, err := time.LoadLocation("Asia/Shanghai")
	gift := []quota.Rule{
		{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day, Zone: shanghai},
		{Name: "week", Scope: quota.Recipient, Limit: 3, Days: 7, Zone: shanghai},
	}

	if err != nil {
		fmt.Println(err)
		return
	}
	for day := range 5 {
		d, err := limiter.Take(ctx, quota.Request{
			ID: fmt.Sprint("gift ", day), Rules: gift,
			Buckets: map[quota.Scope]string{quota.Recipient: quota.Bucket("gift", "user 7")},
		})
		fmt.Println(d.Admitted, d.Violated(), d.RetryAfter(), err)
		pass(24 * time.Hour)
	}
	// Output:
	// true [today] 4h0m0s <nil>
	// true [today] 4h0m0s <nil>
	// true [today week] 100h0m0s <nil>
	// false [week] 76h0m0s <nil>
	// false [week] 52h0m0s <nil>
}

// A limit of 3 in a clock hour admits six requests around the turn of the hour. A limit of 3 in any
// 60 minutes never admits a fourth one.
func ExampleRule_hours() {
	ctx := context.Background()
	now, pass := at()
	limiter := quota.NewMemory(now)

	clock := quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 3, Per: quota.Hour}
	sliding := quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 3, Window: time.Hour}

	pass(59 * time.Minute)
	for i := range 8 {
		var admitted []bool
		for name, rule := range []quota.Rule{clock, sliding} {
			d, err := limiter.Take(ctx, quota.Request{
				ID: fmt.Sprint("sms ", i), Rules: []quota.Rule{rule},
				Buckets: map[quota.Scope]string{quota.Recipient: quota.Bucket(fmt.Sprint(name), "+8613800000000")},
			})
			if err != nil {
				fmt.Println(err)
			}
			admitted = append(admitted, d.Admitted)
		}
		fmt.Println(now().Format("15:04:05"), admitted)
		pass(20 * time.Second)
	}
	// Output:
	// 12:59:00 [true true]
	// 12:59:20 [true true]
	// 12:59:40 [true true]
	// 13:00:00 [true false]
	// 13:00:20 [true false]
	// 13:00:40 [true false]
	// 13:01:00 [false false]
	// 13:01:20 [false false]
}
