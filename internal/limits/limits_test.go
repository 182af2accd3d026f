package limits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/limits"
	"sendcode/internal/policy"
	"sendcode/internal/servertest"
	"sendcode/quota"
)

// shared is a limiter that can go away, and that notes the buckets that it is asked for.
type shared struct {
	*quota.Memory
	away    bool
	buckets []string
}

func (s *shared) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	for _, b := range r.Buckets {
		s.buckets = append(s.buckets, b)
	}
	if s.away {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return s.Memory.Take(ctx, r)
}

func (s *shared) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if s.away {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return s.Memory.Peek(ctx, r)
}

type rig struct {
	*testing.T
	*limits.Service
	limiter *shared
	heard   []string
}

func rule(name string, limit int, window time.Duration, keys ...string) limits.Rule {
	return limits.Rule{Rule: quota.Rule{Name: name, Limit: limit, Window: window}, Keys: keys}
}

var set = limits.Set{
	"web":   {rule("minute", 2, time.Minute, "resource", "ip")},
	"gift":  {rule("short", 1, time.Minute, "user"), rule("long", 3, time.Hour, "user")},
	"words": {rule("checks", 1, time.Minute, "checks"), rule("failures", 1, time.Minute, "failures")}, // as scopes that a Take only reads
}

func inBubble(t *testing.T, test func(r *rig)) {
	servertest.Bubble(t, func(t *testing.T) {
		r := &rig{T: t, limiter: &shared{Memory: quota.NewMemory(time.Now, "shared")}}
		gate := gates.New(r.limiter, nil, policy.NewInForce(policy.Set{}, time.Now), time.Now, slog.New(slog.NewTextHandler(io.Discard, nil)))
		r.Service = limits.New(gate, []byte("a secret"), set, func(limit string, o limits.Operation, outcome string) {
			r.heard = append(r.heard, fmt.Sprint(limit, " ", o, " ", outcome))
		})
		test(r)
	})
}

// does asks as app shop; keys are name, value, name, value.
func (r *rig) does(o limits.Operation, limit, id string, keys ...string) limits.Answer {
	r.Helper()
	return r.as("shop", o, limit, id, keys...)
}

func (r *rig) as(app string, o limits.Operation, limit, id string, keys ...string) limits.Answer {
	r.Helper()
	ask := limits.Request{Operation: o, App: app, Limit: limit, ID: id, Keys: map[string]string{}}
	for i := 0; i < len(keys); i += 2 {
		ask.Keys[keys[i]] = keys[i+1]
	}
	a, err := r.Do(r.Context(), ask)
	if err != nil {
		r.Fatal(err)
	}
	return a
}

// says compares whether an event was counted, what is left of each rule, and the wait.
func (r *rig) says(what string, a limits.Answer, counted bool, left []int, wait time.Duration) {
	r.Helper()
	var got []int
	for _, s := range a.Public().Rules {
		got = append(got, s.Remaining())
	}
	if a.Admitted != counted || !slices.Equal(got, left) || a.RetryAfter() != wait {
		r.Errorf("%s: counted %v, %v left, wait %v; want %v, %v, %v", what, a.Admitted, got, a.RetryAfter(), counted, left, wait)
	}
}

func TestTakePeekAndRecord(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.says("peek", r.does(limits.Peek, "gift", "", "user", "42"), false, []int{1, 3}, 0)
		r.says("take", r.does(limits.Take, "gift", "", "user", "42"), true, []int{0, 2}, time.Minute)
		time.Sleep(time.Second)
		r.says("refused", r.does(limits.Take, "gift", "", "user", "42"), false, []int{0, 2}, 59*time.Second)
		r.says("another user", r.does(limits.Take, "gift", "", "user", "43"), true, []int{0, 2}, time.Minute)
		r.says("record", r.does(limits.Record, "gift", "", "user", "42"), true, []int{0, 1}, time.Minute)
		r.says("record again", r.does(limits.Record, "gift", "", "user", "42"), true, []int{0, 0}, time.Hour-time.Second)
		r.says("over the limit", r.does(limits.Record, "gift", "", "user", "42"), true, []int{0, 0}, time.Hour)
		r.says("peek", r.does(limits.Peek, "gift", "", "user", "42"), false, []int{0, 0}, time.Hour)
		const want = "gift peek looked, gift take admitted, gift take refused, gift take admitted, " +
			"gift record recorded, gift record recorded, gift record recorded, gift peek looked"
		servertest.Same(r.T, "outcomes", strings.Join(r.heard, ", "), want)
	})
}

func TestAnIDCountsOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		long := strings.Repeat("i", limits.MaxValue)
		for range 3 {
			r.says("the same", r.does(limits.Take, "web", long, "resource", "/x", "ip", "203.0.113.9"), true, []int{1}, 0)
			r.says("recorded", r.does(limits.Record, "web", long, "resource", "/x", "ip", "203.0.113.9"), true, []int{1}, 0)
		}
		r.says("another ID", r.does(limits.Take, "web", "i", "resource", "/x", "ip", "203.0.113.9"), true, []int{0}, time.Minute)
	})
}

// What counts together is the app, the limit and the values of a rule's keys, and nothing else.
func TestWhatCountsTogether(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.does(limits.Take, "web", "", "resource", "/x", "ip", "1")
		r.says("further keys", r.does(limits.Peek, "web", "", "resource", "/x", "ip", "1", "user", "42"), false, []int{1}, 0)
		for what, keys := range map[string][]string{
			"other value": {"resource", "/x", "ip", "2"}, "swapped": {"resource", "1", "ip", "/x"}, "joined": {"resource", "/x:1", "ip", "1"},
		} {
			r.says(what, r.does(limits.Peek, "web", "", keys...), false, []int{2}, 0)
		}
		r.says("another app", r.as("blog", limits.Peek, "web", "", "resource", "/x", "ip", "1"), false, []int{2}, 0)
		r.does(limits.Take, "words", "", "checks", "a", "failures", "b")
		r.says("names of scopes", r.does(limits.Take, "words", "", "checks", "a", "failures", "c"), false, []int{0, 1}, time.Minute)
		more := limits.Set{"web": {rule("minute", 2, time.Minute, "ip", "resource"), rule("hour", 5, time.Hour, "resource", "ip")}}
		r.SetLimits(more)
		r.says("changed", r.does(limits.Peek, "web", "", "resource", "/x", "ip", "1"), false, []int{1, 4}, 0)
	})
}

// A rule that only observes is left out of answers, also of those that record.
func TestARuleThatObserves(t *testing.T) {
	inBubble(t, func(r *rig) {
		observing := rule("hour", 1, time.Hour, "user")
		observing.Observe = true
		r.SetLimits(limits.Set{"gift": {rule("short", 2, time.Minute, "user"), observing}})
		for i, o := range []limits.Operation{limits.Take, limits.Record} {
			r.says(string(o), r.does(o, "gift", "", "user", "42"), true, []int{1 - i}, time.Duration(i)*time.Minute)
		}
	})
}

func TestWhileTheLimiterIsAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limiter.away = true
		for i := range 3 {
			a := r.does(limits.Take, "web", "", "resource", "/x", "ip", "1")
			if !a.Degraded || a.Admitted != (i < 2) {
				r.Errorf("%d: %+v", i, a)
			}
		}
		if a := r.does(limits.Peek, "web", "", "resource", "/x", "ip", "1"); !a.Degraded || a.Allowed() {
			r.Errorf("peek: %+v", a)
		}
		r.limiter.away = false
		time.Sleep(gates.Pause)
		if a := r.does(limits.Take, "web", "", "resource", "/x", "ip", "1"); a.Degraded || !a.Admitted {
			r.Errorf("back: %+v", a)
		}
	})
}

func TestBadRequests(t *testing.T) {
	inBubble(t, func(r *rig) {
		many := map[string]string{"user": "1"}
		for i := range limits.MaxKeys {
			many[fmt.Sprint("k", i)] = "1"
		}
		user := func(value string) map[string]string { return map[string]string{"user": value} }
		for want, asks := range map[string][]limits.Request{
			"unknown":             {{Limit: "none", Keys: user("1")}},
			"keys.user: missing":  {{Limit: "gift"}, {Limit: "gift", Keys: user("")}},
			"keys.user: too_long": {{Limit: "gift", Keys: user(strings.Repeat("u", 201))}},
			"id: too_long":        {{Limit: "gift", Keys: user("1"), ID: strings.Repeat("u", 201)}},
			"keys: too_many":      {{Limit: "gift", Keys: many}},
		} {
			for _, ask := range asks {
				for _, o := range []limits.Operation{limits.Take, limits.Peek, limits.Record} {
					ask.Operation, ask.App = o, "shop"
					_, err := r.Do(r.Context(), ask)
					got := fmt.Sprint(err)
					if bad := (*limits.KeyError)(nil); errors.As(err, &bad) {
						got = bad.Field + ": " + bad.Reason
					} else if errors.Is(err, limits.ErrUnknown) {
						got = "unknown"
					}
					if got != want {
						r.Errorf("%s: %s, want %s", o, got, want)
					}
				}
			}
		}
		if len(r.limiter.buckets) > 0 {
			r.Errorf("the limiter was asked for %q", r.limiter.buckets)
		}
	})
}

// No value of a key, such as a phone number, reaches the limiter; and a client that hangs up is counted.
func TestTheLimiterIsToldNoValue(t *testing.T) {
	inBubble(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		ask := limits.Request{Operation: limits.Take, App: "shop", Limit: "gift", Keys: map[string]string{"user": "+4915123456789"}}
		a, err := r.Do(ctx, ask)
		bucket := strings.Join(r.limiter.buckets, " ")
		if err != nil || !a.Admitted || strings.Contains(bucket, "49151") || !strings.HasPrefix(bucket, "limit:shop:gift:key%3Auser:") {
			r.Errorf("%+v, %v, %q", a, err, bucket)
		}
	})
}
