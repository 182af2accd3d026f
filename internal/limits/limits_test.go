package limits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/limits"
	"sendcode/internal/parts"
	"sendcode/internal/policy"
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
	"mixed": {rule("user", 1, time.Minute, "user"), rule("site", 3, time.Minute, "site")},
	"words": {rule("checks", 1, time.Minute, "checks"), rule("failures", 1, time.Minute, "failures")}, // names of scopes that sends only look at
}

func inBubble(t *testing.T, test func(r *rig)) {
	parts.Bubble(t, func(t *testing.T) {
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
		want := []string{"gift peek looked", "gift take admitted", "gift take refused", "gift take admitted", "gift record recorded", "gift record recorded", "gift record recorded", "gift peek looked"}
		if !slices.Equal(r.heard, want) {
			r.Errorf("heard %q", r.heard)
		}
	})
}

// A refusal by one rule takes no place of another, with other keys.
func TestRulesAreDecidedTogether(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.says("first", r.does(limits.Take, "mixed", "", "user", "a", "site", "s"), true, []int{0, 2}, time.Minute)
		r.says("refused by the user's", r.does(limits.Take, "mixed", "", "user", "a", "site", "s"), false, []int{0, 2}, time.Minute)
		r.says("another", r.does(limits.Take, "mixed", "", "user", "b", "site", "s"), true, []int{0, 1}, time.Minute)
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
		for what, keys := range map[string][]string{"other value": {"resource", "/x", "ip", "2"}, "swapped": {"resource", "1", "ip", "/x"}, "joined": {"resource", "/x:1", "ip", "1"}} {
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
		for what, test := range map[string]struct {
			ask  limits.Request
			want error
		}{
			"unknown":      {limits.Request{Limit: "none", Keys: map[string]string{"user": "1"}}, limits.ErrUnknown},
			"no key":       {limits.Request{Limit: "gift"}, &limits.KeyError{Field: "keys.user", Reason: "missing"}},
			"an empty key": {limits.Request{Limit: "gift", Keys: map[string]string{"user": ""}}, &limits.KeyError{Field: "keys.user", Reason: "missing"}},
			"a long value": {limits.Request{Limit: "gift", Keys: map[string]string{"user": strings.Repeat("u", 201)}}, &limits.KeyError{Field: "keys.user", Reason: "too_long"}},
			"a long ID":    {limits.Request{Limit: "gift", Keys: map[string]string{"user": "1"}, ID: strings.Repeat("u", 201)}, &limits.KeyError{Field: "id", Reason: "too_long"}},
			"many keys":    {limits.Request{Limit: "gift", Keys: many}, &limits.KeyError{Field: "keys", Reason: "too_many"}},
		} {
			for _, o := range []limits.Operation{limits.Take, limits.Peek, limits.Record} {
				test.ask.Operation, test.ask.App = o, "shop"
				_, err := r.Do(r.Context(), test.ask)
				var bad *limits.KeyError
				if errors.As(err, &bad) {
					bad.Detail, err = "", bad
				}
				if !reflect.DeepEqual(err, test.want) {
					r.Errorf("%s, %s: %v", o, what, err)
				}
			}
		}
		if len(r.limiter.buckets) > 0 {
			r.Errorf("the limiter was asked for %q", r.limiter.buckets)
		}
	})
}

// A phone number that is a key is nowhere in the limiter, and a client that hangs up is counted.
func TestTheLimiterIsToldNoValue(t *testing.T) {
	inBubble(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		a, err := r.Do(ctx, limits.Request{Operation: limits.Take, App: "shop", Limit: "gift", Keys: map[string]string{"user": "+4915123456789"}})
		if err != nil || !a.Admitted || len(r.limiter.buckets) != 1 || strings.Contains(r.limiter.buckets[0], "49151") || !strings.HasPrefix(r.limiter.buckets[0], "limit:shop:gift:key%3Auser:") {
			r.Errorf("%+v, %v, %q", a, err, r.limiter.buckets)
		}
	})
}
