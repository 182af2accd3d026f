package quota_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/quota"
)

var policy = quota.Policy{Name: "default", Rules: []quota.Rule{
	{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
}}

// This is the code in README.md.
var _ = func(ctx context.Context) error {
	client, err := quota.OpenRedis("redis://localhost:6379/0") // or redis+sentinel:// or redis+cluster://
	if err != nil {
		return err
	}
	limiter := quota.NewRedis(client, "quota:") // for one process: quota.NewMemory(time.Now)
	d, err := limiter.Take(ctx, quota.Request{
		ID: uuid.NewString(), // a retry has the same ID, and counts once
		Rules: []quota.Rule{
			{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
			{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		},
		Buckets: map[quota.Scope]string{quota.Recipient: quota.Bucket("shop", "recipient", "ann@example.com")},
	})
	if err != nil {
		return err // not admitted, but it may count: repeat it with the same ID, or Refund the ID
	}
	if !d.Admitted {
		return fmt.Errorf("wait %d s", quota.Seconds(d.RetryAfter()))
	}
	return nil
}

func TestExamplesHaveTheCodeOfREADME(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	readme, code := read("README.md"), read("example_test.go")
	_, sample, _ := strings.Cut(readme, "```go\n")
	sample, _, _ = strings.Cut(sample, "```")
	if sample = regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(sample, "\t$1"); sample == "" || !strings.Contains(code, sample) {
		t.Errorf("README.md shows other code than example_test.go:\n%s", sample)
	}
	code = regexp.MustCompile(`// .*`).ReplaceAllString(code, "")
	for _, call := range regexp.MustCompile(`quota\.New\w+\(.*?\)`).FindAllString(readme, -1) {
		if !strings.Contains(code, call) {
			t.Errorf("no example here compiles %s of README.md", call)
		}
	}
}

// Bucket escapes its separator, so a caller can't reach another bucket by the choice of a name.
func ExampleBucket() {
	fmt.Println(quota.Bucket("shop", "recipient", "ann@example.com"))
	fmt.Println(quota.Bucket("shop", "recipient:ann"), quota.Bucket("shop:recipient", "ann"))
	// Output:
	// shop:recipient:ann@example.com
	// shop:recipient%3Aann shop%3Arecipient:ann
}

// A send that failed for good gives its place back. A late copy of its Take cannot take the place
// again.
func ExampleMemory_Refund() {
	ctx, limiter := context.Background(), quota.NewMemory(time.Now)
	bucket := quota.Bucket("recipient", "ann")
	request := quota.Request{
		ID: "send 1", Rules: policy.Rules,
		Buckets: map[quota.Scope]string{quota.Recipient: bucket},
	}
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

// Evaluate explains a history from another source, for example from the log of a mail server.
func ExampleEvaluate() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	history := []quota.Event{
		{ID: "send 1", At: now.Add(-50 * time.Minute)},
		{ID: "send 2", At: now.Add(-18287 * time.Millisecond)},
	}
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
	// rule 1 ("minute"): limit 0 is not between 1 and 100000
	// rule 2 ("Hour"): name is not of the form [a-z][a-z0-9_-]{0,31}
	// rule 2 ("Hour"): window 90ms is not whole seconds within 1 s and 31 days
}

// Whether a login fails is known only after it was admitted, so Record counts the failures.
func ExampleRule_recorded() {
	limiter, ctx := quota.NewMemory(time.Now), context.Background()
	logins := quota.Request{
		ID:      "login 1",
		Rules:   []quota.Rule{{Name: "failed-logins", Scope: "user", Limit: 1, Window: time.Hour, Recorded: true}},
		Buckets: map[quota.Scope]string{"user": quota.Bucket("logins", "ann")},
	}
	first, _ := limiter.Take(ctx, logins)
	err := limiter.Record(ctx, logins.Buckets["user"], time.Hour, []quota.AgedEvent{{ID: logins.ID}}) // the password was wrong
	logins.ID = "login 2"
	second, _ := limiter.Take(ctx, logins)
	fmt.Println(first.Admitted, first.Rules[0].Used, err, second.Admitted, second.Violated())
	// Output: true 0 <nil> false [failed-logins]
}

// A queue lets callers wait for a place, in the order of their arrival. A caller that cannot be
// admitted in time is refused at once.
func ExampleQueue_Wait() {
	limiter, queue := quota.NewMemory(time.Now), quota.NewQueue()
	request := quota.Request{
		Rules:   []quota.Rule{{Name: "second", Scope: quota.Purpose, Limit: 1, Window: time.Second}},
		Buckets: map[quota.Scope]string{quota.Purpose: "export"},
	}
	for _, most := range []time.Duration{0, 20 * time.Second, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		request.ID = most.String()
		d, err := queue.Wait(ctx, request, limiter.Take)
		fmt.Println(d.Admitted, quota.Seconds(d.RetryAfter()), err)
		cancel()
	}
	// Output:
	// true 1 <nil>
	// true 1 <nil>
	// false 1 <nil>
}
