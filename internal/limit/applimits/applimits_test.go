package applimits_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/limit/gates"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// sharedLimiter is a limiter that can become unavailable, and that records the buckets of its
// calls.
type sharedLimiter struct {
	*quota.Memory
	mu      sync.Mutex // for callers that wait
	away    bool
	lost    bool // the limiter decides, but its answers are lost
	buckets []string
}

func (s *sharedLimiter) unlessAway(ctx context.Context, r quota.Request,
	call func(context.Context, quota.Request) (quota.Decision, error),
) (quota.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets = slices.AppendSeq(s.buckets, maps.Values(r.Buckets))
	if s.away {
		return quota.Decision{}, quota.ErrUnavailable
	}
	if d, err := call(ctx, r); !s.lost {
		return d, err
	}
	return quota.Decision{}, quota.ErrUnavailable
}

func (s *sharedLimiter) set(away, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.lost = away, lost
}

// setAwayAndCount returns the number of requested buckets, and sets whether the limiter is away.
func (s *sharedLimiter) setAwayAndCount(away bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	return len(s.buckets)
}

func (s *sharedLimiter) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return s.unlessAway(ctx, r, s.Memory.Take)
}

func (s *sharedLimiter) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return s.unlessAway(ctx, r, s.Memory.Peek)
}

type limitsRig struct {
	*vtest.Rig
	*applimits.Service
	limiter *sharedLimiter
}

func limitsRule(name string, limit int, window time.Duration, keys ...string) applimits.Rule {
	return applimits.Rule{Rule: quota.Rule{Name: name, Limit: limit, Window: window}, Keys: keys}
}

var limitsSet = applimits.Set{
	"web":  {limitsRule("minute", 2, time.Minute, "resource", "ip")},
	"gift": {limitsRule("short", 1, time.Minute, "user"), limitsRule("long", 3, time.Hour, "user")},
	// keys with the names of scopes whose buckets a Take only reads
	"words": {limitsRule("checks", 1, time.Minute, "checks"), limitsRule("failures", 1, time.Minute, "failures")},
}

func inLimits(t *testing.T, test func(r *limitsRig)) {
	t.Helper()
	vtest.InBubbleIdle(t, nil, func(v *vtest.Rig) {
		r := &limitsRig{v, v.Svc.Limits, &sharedLimiter{Memory: quota.NewMemory(time.Now)}}
		r.Limiter.Set(r.limiter)
		r.SetLimits(limitsSet)
		test(r)
	})
}

// answer has the fields of an applimits.Answer that tests compare.
type answer struct {
	counted bool
	left    string // the remaining places of each rule, such as "[1 0]"
	wait    time.Duration
	local   bool
}

// expect makes a call with keys such as "user=42", and compares the answer. The caller is the app
// shop, or the app that the key app names.
func (r *limitsRig) expect(o applimits.Operation, limit, id, keys string, want answer) {
	r.Helper()
	ask := applimits.Request{Operation: o, App: "shop", Limit: limit, ID: id, Keys: map[string]string{}}
	for _, key := range strings.Fields(keys) {
		name, value, _ := strings.Cut(key, "=")
		ask.Keys[name] = value
	}
	if app, ok := ask.Keys["app"]; ok {
		ask.App = app
	}
	a, err := r.Apply(r.Context(), ask)
	var left []int
	for _, s := range a.Public().Rules {
		left = append(left, s.Remaining())
	}
	vtest.Equal(r, fmt.Sprintf("error of %s %s, %s", o, limit, keys), err, nil)
	vtest.Equal(r, fmt.Sprintf("%s %s, %s", o, limit, keys), answer{a.Admitted, fmt.Sprint(left), a.RetryAfter(), a.Local}, want)
}

func TestLimitsTakePeekAndRecord(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		r.expect(applimits.Peek, "gift", "", "user=42", answer{left: "[1 3]"})
		r.expect(applimits.Take, "gift", "", "user=42", answer{counted: true, left: "[0 2]", wait: time.Minute})
		time.Sleep(time.Second)
		r.expect(applimits.Take, "gift", "", "user=42", answer{left: "[0 2]", wait: 59 * time.Second})
		r.expect(applimits.Take, "gift", "", "user=43", answer{counted: true, left: "[0 2]", wait: time.Minute})
		r.expect(applimits.Record, "gift", "", "user=42", answer{counted: true, left: "[0 1]", wait: time.Minute})
		r.expect(applimits.Record, "gift", "", "user=42", answer{counted: true, left: "[0 0]", wait: time.Hour - time.Second})
		r.expect(applimits.Record, "gift", "", "user=42", answer{counted: true, left: "[0 0]", wait: time.Hour}) // over the limit
		r.expect(applimits.Peek, "gift", "", "user=42", answer{left: "[0 0]", wait: time.Hour})
		vtest.Equal(r, "outcomes", r.Metrics.Take("limit gift peek looked"), 2)
		vtest.Equal(r, "outcomes", r.Metrics.Take("limit gift take admitted"), 2)
		vtest.Equal(r, "outcomes", r.Metrics.Take("limit gift take refused"), 1)
		vtest.Equal(r, "outcomes", r.Metrics.Take("limit gift record recorded"), 3)
	})
}

func TestLimitsCountAnIDOnce(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		long := strings.Repeat("i", applimits.MaxTextBytes)
		for range 3 {
			r.expect(applimits.Take, "web", long, "resource=/x ip=203.0.113.9", answer{counted: true, left: "[1]"})
			r.expect(applimits.Record, "web", long, "resource=/x ip=203.0.113.9", answer{counted: true, left: "[1]"})
		}
		r.expect(applimits.Take, "web", "i", "resource=/x ip=203.0.113.9", answer{counted: true, left: "[0]", wait: time.Minute})
	})
}

// Events count together exactly if they have the same app, limit and values of the rule's keys.
func TestLimitsCountTogether(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		r.expect(applimits.Take, "web", "", "resource=/x ip=1", answer{counted: true, left: "[1]"})
		r.expect(applimits.Peek, "web", "", "resource=/x ip=1 user=42", answer{left: "[1]"})
		for _, other := range []string{"resource=/x ip=2", "resource=1 ip=/x", "resource=/x:1 ip=1", "resource=/x ip=1 app=blog"} {
			r.expect(applimits.Peek, "web", "", other, answer{left: "[2]"})
		}
		// these keys have names of scopes
		r.expect(applimits.Take, "words", "", "checks=a failures=b", answer{counted: true, left: "[0 0]", wait: time.Minute})
		r.expect(applimits.Take, "words", "", "checks=a failures=c", answer{left: "[0 1]", wait: time.Minute})
		r.SetLimits(applimits.Set{"web": {
			limitsRule("minute", 2, time.Minute, "ip", "resource"),
			limitsRule("hour", 5, time.Hour, "resource", "ip"),
		}})
		r.expect(applimits.Peek, "web", "", "resource=/x ip=1", answer{left: "[1 4]"})
	})
}

// A rule that only observes is left out of answers, also of answers to Record.
func TestLimitsObservingRule(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		observing := limitsRule("hour", 1, time.Hour, "user")
		observing.Observe = true
		r.SetLimits(applimits.Set{"gift": {limitsRule("short", 2, time.Minute, "user"), observing}})
		r.expect(applimits.Take, "gift", "", "user=42", answer{counted: true, left: "[1]"})
		r.expect(applimits.Record, "gift", "", "user=42", answer{counted: true, left: "[0]", wait: time.Minute})
	})
}

// Events that the limiter admitted and events that this process admitted alone count together, both
// while the limiter is away and when it is back.
func TestLimitsWhileTheLimiterIsAway(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		const keys = "resource=/x ip=1"
		r.expect(applimits.Take, "web", "known", keys, answer{counted: true, left: "[1]"})
		r.expect(applimits.Peek, "web", "", keys, answer{left: "[1]"})
		r.limiter.set(true, false)
		time.Sleep(3 * time.Second)
		r.expect(applimits.Take, "web", "known", keys, answer{counted: true, left: "[1]", local: true}) // a repetition
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[0]", wait: 57 * time.Second, local: true})
		r.expect(applimits.Take, "web", "", keys, answer{left: "[0]", wait: 57 * time.Second, local: true})
		r.expect(applimits.Peek, "web", "", keys, answer{left: "[0]", wait: 57 * time.Second, local: true})
		r.limiter.set(false, false)
		r.Sleep(gates.LimiterRetryDelay)
		r.expect(applimits.Peek, "web", "", keys, answer{left: "[0]", wait: 56 * time.Second}) // the limiter has counted one event
		r.expect(applimits.Take, "web", "", keys, answer{left: "[0]", wait: 56 * time.Second})
		time.Sleep(56 * time.Second)
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[0]", wait: 3 * time.Second})
		time.Sleep(3 * time.Second)
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[0]", wait: 57 * time.Second})
		time.Sleep(time.Minute)
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[1]"}) // no refused event counts
	})
}

// If the answer to a call is lost, the event may have counted. If this process then admits the
// event, it counts once. If this process refuses the event, it is refunded, unless the caller can
// repeat its ID.
func TestLimitsLostAnswerOfTheLimiter(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		const keys = "resource=/x ip=1"
		r.limiter.set(true, false)
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[1]", local: true})
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[0]", wait: time.Minute, local: true})
		lose := func() { // brings the limiter back, but loses its answers
			r.limiter.set(false, false)
			r.Sleep(gates.LimiterRetryDelay)
			r.limiter.set(false, true)
		}
		lose()
		r.expect(applimits.Take, "web", "", keys, answer{left: "[0]", wait: 59 * time.Second, local: true})
		servertest.Same(r.T, "refunds that wait", r.Svc.Gates.PendingRefunds(), 1)
		lose()
		r.expect(applimits.Take, "web", "again", keys, answer{left: "[0]", wait: 58 * time.Second, local: true})
		servertest.Same(r.T, "refunds that wait in the end", r.Svc.Gates.PendingRefunds(), 0)
		r.limiter.set(false, false)
		r.Sleep(gates.LimiterRetryDelay)
		// the limiter admitted the event, but no longer has it
		r.expect(applimits.Take, "web", "", keys, answer{left: "[0]", wait: 57 * time.Second})
		time.Sleep(57 * time.Second)
		r.expect(applimits.Take, "web", "again", keys, answer{counted: true, left: "[1]"})
	})
}

func TestLimitsBadRequests(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		many := map[string]string{"user": "1"}
		for i := range applimits.MaxKeys {
			many[fmt.Sprint("k", i)] = "1"
		}
		user := func(value string) map[string]string { return map[string]string{"user": value} }
		for want, asks := range map[string][]applimits.Request{
			"unknown":             {{Limit: "none", Keys: user("1")}},
			"keys.user: missing":  {{Limit: "gift"}, {Limit: "gift", Keys: user("")}},
			"keys.user: too_long": {{Limit: "gift", Keys: user(strings.Repeat("u", 201))}},
			"keys.else: too_long": {{Limit: "gift", Keys: map[string]string{"user": "1", "else": strings.Repeat("u", 201)}}},
			"keys: too_long":      {{Limit: "gift", Keys: map[string]string{"user": "1", strings.Repeat("u", 201): "1"}}},
			"id: too_long":        {{Limit: "gift", Keys: user("1"), ID: strings.Repeat("u", 201)}},
			"keys: too_many":      {{Limit: "gift", Keys: many}},
		} {
			for _, ask := range asks {
				for _, o := range []applimits.Operation{applimits.Take, applimits.Peek, applimits.Record} {
					ask.Operation, ask.App = o, "shop"
					_, err := r.Apply(r.Context(), ask)
					got := fmt.Sprint(err)
					if bad := (*fault.InvalidError)(nil); errors.As(err, &bad) {
						got = bad.Field + ": " + bad.Reason
					} else if errors.Is(err, fault.NotFound) {
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

// No value of a key, such as a phone number, reaches the limiter. The call of a client that
// disconnects is counted.
func TestLimitsTellTheLimiterNoValue(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		ask := applimits.Request{Operation: applimits.Take, App: "shop", Limit: "gift", Keys: map[string]string{"user": "+4915123456789"}}
		a, err := r.Apply(ctx, ask)
		bucket := strings.Join(r.limiter.buckets, " ")
		if err != nil || !a.Admitted || strings.Contains(bucket, "49151") || !strings.HasPrefix(bucket, "limit:shop:gift:key%3Auser:") {
			r.Errorf("%+v, %v, %q", a, err, bucket)
		}
	})
}

// Callers wait for their places in order. A caller that cannot get a place in time, or that does
// not wait, is refused without a call of the limiter.
func TestLimitsTakesWaitForAPlace(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		const keys = "resource=/x ip=1"
		r.limiter.set(true, false)
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[1]", local: true})
		r.expect(applimits.Take, "web", "", keys, answer{counted: true, left: "[0]", wait: time.Minute, local: true})
		time.Sleep(40 * time.Second)
		wait := func(most time.Duration) (applimits.Answer, error) {
			ask := applimits.Request{
				Operation: applimits.Take, App: "shop", Limit: "web",
				Keys: map[string]string{"resource": "/x", "ip": "1"}, Wait: most,
			}
			return r.Apply(r.Context(), ask)
		}
		done := make(chan applimits.Answer, 2)
		for range 2 {
			go func() {
				a, err := wait(time.Hour) // waits at most 30 s, which is MaxWait
				if err != nil {
					r.Error(err)
				}
				done <- a
			}()
			synctest.Wait()
		}
		asked := r.limiter.setAwayAndCount(true)
		r.expect(applimits.Take, "web", "", keys, answer{left: "[0]", wait: 80 * time.Second, local: true}) // the wait behind two callers
		if a, err := wait(10 * time.Second); err != nil || a.Admitted || !a.Local || a.RetryAfter() != 80*time.Second {
			r.Errorf("%+v %v", a, err)
		}
		servertest.Same(r.T, "calls for the refused", r.limiter.setAwayAndCount(false), asked)
		for range 2 {
			if a := <-done; !a.Admitted || a.Local {
				r.Errorf("%+v", a)
			}
		}
		r.expect(applimits.Take, "web", "", keys, answer{left: "[0]", wait: time.Minute})
	})
}

// An app whose Takes fill the queue does not keep other apps from waiting. If the ID of a waiting
// Take is repeated, both get the same answer.
func TestLimitsAppsShareTheQueue(t *testing.T) {
	inLimits(t, func(r *limitsRig) {
		r.SetLimits(applimits.Set{"web": {limitsRule("short", 1, 20*time.Second, "user")}})
		r.expect(applimits.Take, "web", "", "user=42", answer{counted: true, left: "[0]", wait: 20 * time.Second})
		r.expect(applimits.Take, "web", "", "user=42 app=blog", answer{counted: true, left: "[0]", wait: 20 * time.Second})
		take := func(app, id, user string) (applimits.Answer, error) {
			return r.Apply(r.Context(), applimits.Request{
				Operation: applimits.Take, App: app, Limit: "web", ID: id,
				Keys: map[string]string{"user": user}, Wait: applimits.MaxWait,
			})
		}
		var all sync.WaitGroup
		for i := range quota.MaxWaiting { // each waits in a line of its own: only the first of a line could get a place
			all.Go(func() {
				for range 2 {
					if _, err := take("shop", "", fmt.Sprint(i)); err != nil {
						r.Error(err)
					}
				}
			})
		}
		synctest.Wait()
		type waited struct {
			counted bool
			wait    time.Duration
			err     error
		}
		answers := make(chan waited, 3)
		for range 3 {
			all.Go(func() {
				a, err := take("blog", "once", "42")
				answers <- waited{a.Admitted, a.RetryAfter(), err}
			})
		}
		synctest.Wait()
		servertest.Same(r.T, "answers before the place is free", len(answers), 0)
		for range 3 {
			servertest.Same(r.T, "answer", <-answers, waited{counted: true, wait: 20 * time.Second})
		}
		r.expect(applimits.Peek, "web", "", "user=42 app=blog", answer{left: "[0]", wait: 20 * time.Second})
		all.Wait()
	})
}
