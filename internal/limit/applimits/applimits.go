// Package applimits is a general rate limiter for the apps' own events. A limit is a named list of
// rules over keys that the app chooses, such as a user, a route or an address. Package gates
// decides it. The events have no rows of their own: without Redis, gates.SavedEvents saves them.
//
// Each combination of app, limit and values of a rule's keys has a bucket; rules with the same keys
// share them. All rules of a limit are decided in one step, except on a Redis Cluster, which
// decides one bucket after the other. No limit is ever exceeded there either. But a request may be
// refused that would be admitted a moment later: another request may take a place in one bucket, be
// refused by a second, and only then give the first place back.
package applimits

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/quota"
)

// Rule is a quota rule with the keys by which it counts.
type Rule struct {
	quota.Rule          // New and SetLimits set its Scope
	Keys       []string // at least one
}

// Set has the rules of each limit, by name.
type Set map[string][]Rule

// These are bounds of a request.
const (
	MaxKeys      = 8
	MaxTextBytes = 200 // bounds a key, its value, and an ID
	MaxWait      = 30 * time.Second
)

type Operation string

const (
	Take   Operation = "take"   // counts the event, unless a rule refuses it
	Peek   Operation = "peek"   // counts nothing
	Record Operation = "record" // counts the event, even if a rule would refuse it
)

type Request struct {
	Operation Operation
	App       string
	Limit     string
	Keys      map[string]string // values by name; keys that no rule uses must be valid too
	ID        string            // events with the same ID count once; empty: a random ID
	Wait      time.Duration     // how long a Take may wait for a place, at most MaxWait; see quota.Queue
}

// Answer is the state of the limit after the operation. Local says that the limiter was
// unavailable, so this process decided from its own events.
type Answer struct{ quota.Decision }

func (a Answer) Refused(o Operation) bool { return o == Take && !a.Admitted }

// limiter is implemented by *gates.Gates.
type limiter interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error)
	PeekOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error)
}

// Service applies the configured limits. Safe for concurrent use.
type Service struct {
	limiter limiter
	secret  []byte
	observe func(limit string, o Operation, outcome string)
	queue   *quota.Queue
	set     atomic.Pointer[map[string]preparedRules]
}

type preparedRules struct {
	rules     []quota.Rule
	observing []quota.Rule // with Observe set, so that none refuses
	keys      map[quota.Scope][]string
}

// New makes a service. It passes the limiter a keyed hash of the keys' values, never the values.
// After each operation on a known limit, unless the request was invalid, it calls counted with one
// of the outcomes "admitted", "refused", "looked", "recorded" and "unavailable".
func New(limiter limiter, secret []byte, set Set, counted func(limit string, o Operation, outcome string)) *Service {
	s := &Service{limiter: limiter, secret: secret, observe: counted, queue: quota.NewQueue()}
	s.SetLimits(set)
	return s
}

// SetLimits replaces all limits. Events still count for a rule if the limit's name and the rule's
// keys are the same.
func (s *Service) SetLimits(set Set) {
	limits := map[string]preparedRules{}
	for name, rules := range set {
		l := preparedRules{keys: map[quota.Scope][]string{}}
		for _, r := range rules {
			keys := slices.Compact(slices.Sorted(slices.Values(r.Keys)))
			r.Scope = quota.Scope("key:" + strings.Join(keys, "+")) // no scope of sends has a colon
			l.keys[r.Scope] = keys
			l.rules = append(l.rules, r.Rule)
			r.Observe = true
			l.observing = append(l.observing, r.Rule)
		}
		limits[name] = l
	}
	s.set.Store(&limits)
}

// EndWaits answers all waiting requests, and lets no later one wait. Call it once.
func (s *Service) EndWaits() { s.queue.End() }

// Apply does the operation, even if ctx is canceled meanwhile; only a wait for a place then ends,
// with quota.ErrUnavailable.
//
// Errors: fault.NotFound for an unknown limit and *fault.InvalidError for an invalid request, in
// which cases nothing was done; quota.ErrUnavailable if the limit could not be decided.
func (s *Service) Apply(ctx context.Context, ask Request) (Answer, error) {
	l, ok := (*s.set.Load())[ask.Limit]
	if !ok {
		return Answer{}, fault.NotFound
	}
	request, err := s.quotaRequest(l, ask)
	if err != nil {
		return Answer{}, err
	}
	a, err := s.run(ctx, l, ask, request)
	s.observe(ask.Limit, ask.Operation, outcome(ask.Operation, a, err))
	return a, err
}

func outcome(o Operation, a Answer, err error) string {
	switch {
	case err != nil:
		return "unavailable"
	case a.Refused(o):
		return "refused"
	}
	return map[Operation]string{Take: "admitted", Peek: "looked", Record: "recorded"}[o]
}

// run makes the limiter decide or, while the limiter is unavailable, this process. A client that
// disconnects can't keep its event from being counted: only a wait for a place ends with ctx.
func (s *Service) run(ctx context.Context, l preparedRules, ask Request, r quota.Request) (a Answer, err error) {
	counting := context.WithoutCancel(ctx)
	switch {
	case ask.Operation == Peek:
		a.Decision, err = s.limiter.PeekOrLocal(counting, r)
	case ask.Operation == Record:
		// A rule that observes counts and never refuses, so one Take adds the event to all buckets.
		// The answer shows Observe as configured.
		r.Rules = l.observing
		a.Decision, err = s.limiter.TakeOrLocal(counting, r)
		for i := range a.Rules {
			a.Rules[i].Observe = l.rules[i].Observe
		}
	case ask.Wait > 0:
		bounded, cancel := context.WithTimeout(ctx, min(ask.Wait, MaxWait))
		defer cancel()
		a.Decision, err = s.queue.Wait(bounded, r, func(ctx context.Context, r quota.Request) (quota.Decision, error) {
			if !r.Repeated { // the ID of a refused call may have been refunded
				r.ID, _ = eventID("")
			}
			return s.limiter.TakeOrLocal(ctx, r)
		})
	default:
		a.Decision, err = s.queue.Take(counting, r, s.limiter.TakeOrLocal)
	}
	if errors.Is(err, quota.ErrRefunded) { // a bucket of a Cluster refused this ID after others had admitted it
		err = fmt.Errorf("%w: %w", quota.ErrUnavailable, err)
	}
	return a, err
}

func (s *Service) quotaRequest(l preparedRules, ask Request) (quota.Request, error) {
	if len(ask.Keys) > MaxKeys {
		return quota.Request{}, fault.Invalid("keys", "too_many",
			fmt.Sprintf("A request has at most %d keys.", MaxKeys))
	}
	for name, value := range ask.Keys { // keys that no rule has must be valid, too
		field := "keys"
		if len(name) <= MaxTextBytes {
			field += "." + name
		}
		if max(len(name), len(value)) > MaxTextBytes {
			return quota.Request{}, fault.Invalid(field, "too_long",
				fmt.Sprintf("A key and its value have at most %d bytes each.", MaxTextBytes))
		}
	}
	id, err := eventID(ask.ID)
	if err != nil {
		return quota.Request{}, err
	}
	r := quota.Request{
		ID: id, Repeated: ask.ID != "", Tenant: ask.App, Rules: l.rules,
		Buckets: make(map[quota.Scope]string, len(l.keys)),
	}
	for _, rule := range l.rules {
		if _, done := r.Buckets[rule.Scope]; done {
			continue
		}
		values := make([]string, 0, MaxKeys)
		for _, name := range l.keys[rule.Scope] {
			if ask.Keys[name] == "" {
				return quota.Request{}, fault.Invalid("keys."+name, "missing",
					"This limit counts by the key "+name+", which is missing or empty.")
			}
			values = append(values, ask.Keys[name])
		}
		r.Buckets[rule.Scope] = quota.Bucket("limit", ask.App, ask.Limit, string(rule.Scope), s.hashValues(values))
	}
	return r, nil
}

// eventID hashes the caller's ID, or a random one, to 16 bytes.
func eventID(id string) (string, error) {
	if len(id) > MaxTextBytes {
		return "", fault.Invalid("id", "too_long", fmt.Sprintf("An ID has at most %d bytes.", MaxTextBytes))
	}
	sum := sha256.Sum256([]byte(cmp.Or(id, rand.Text())))
	return string(sum[:16]), nil
}

// hashValues returns 128 bits of the values' HMAC.
func (s *Service) hashValues(values []string) string {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(quota.Bucket(append([]string{"limit"}, values...)...)))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}
