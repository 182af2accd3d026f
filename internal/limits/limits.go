// Package limits is the quota engine for whatever is not a send: named lists of rules over keys that the caller chooses, such as a user,
// a route or an address. It stands between package api and package gates; nothing of it is in the log.
//
// The events of a rule are counted in a bucket of the app, the limit and the values of the rule's keys. Rules with the same keys share a
// bucket. All rules of a limit are decided in one step; on a Redis Cluster, bucket by bucket: never over, but a request may be refused
// that would have passed a moment later.
package limits

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

	"sendcode/quota"
)

// Rule is a rule with the names of the keys that it counts by: events with the same values of all of them count together.
type Rule struct {
	quota.Rule          // its Scope is set by New and Change
	Keys       []string // at least one
}

// Set are the limits by name.
type Set map[string][]Rule

// Bounds of a request.
const (
	MaxKeys  = 8   // of a request
	MaxValue = 200 // bytes of a value of a key, and of an ID
)

// Operation is what is done with an event.
type Operation string

// The operations.
const (
	Take   Operation = "take"   // counts the event, unless a rule refuses it
	Peek   Operation = "peek"   // counts nothing
	Record Operation = "record" // counts the event, whatever the rules say
)

// Ask is one request.
type Ask struct {
	Operation Operation
	App       string
	Limit     string
	Keys      map[string]string // values by the names of keys; those that no rule has are left out
	ID        string            // of the event: repeated, it counts once. Empty: a new one
}

// Answer is what the limit says after the operation.
type Answer struct {
	quota.Decision
	Degraded bool // the limiter is away: this process decided alone
}

// Refused says whether the event was not counted since a rule has no place left.
func (a Answer) Refused(o Operation) bool { return o == Take && !a.Admitted }

// ErrUnknown says that there is no limit of that name.
var ErrUnknown = errors.New("limits: unknown limit")

// KeyError says what is wrong with a field of a request, without repeating its value.
type KeyError struct {
	Field  string // keys, keys.<name> or id
	Reason string // machine word: missing, too_many or too_long
	Detail string // sentence
}

func (e *KeyError) Error() string { return "limits: " + e.Field + ": " + e.Reason }

// Gate decides in the limiter or, while it is away, in this process. Implementation: gates.Gate.
type Gate interface {
	TakeOrAlone(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error)
	PeekOrAlone(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error)
}

// Service answers for the limits in force. Safe for concurrent use.
type Service struct {
	gate    Gate
	secret  []byte
	counted func(limit string, o Operation, outcome string)
	set     atomic.Pointer[map[string]limit]
}

// limit is a list of rules made ready to ask.
type limit struct {
	rules     []quota.Rule
	observing []quota.Rule // the same, none of which refuses
	keys      map[quota.Scope][]string
}

// New makes a service. The limiter's keys hold no value of a request: they are hashed with the secret. counted hears of each answer; its
// outcomes are admitted, refused, looked, recorded and unavailable.
func New(gate Gate, secret []byte, set Set, counted func(limit string, o Operation, outcome string)) *Service {
	s := &Service{gate: gate, secret: secret, counted: counted}
	s.Change(set)
	return s
}

// Change puts other limits in force. What was counted stays: rules with the same keys find it.
func (s *Service) Change(set Set) {
	limits := map[string]limit{}
	for name, rules := range set {
		l := limit{keys: map[quota.Scope][]string{}}
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

// Do asks a limit. Errors: ErrUnknown, *KeyError, quota.ErrUnavailable.
func (s *Service) Do(ctx context.Context, ask Ask) (Answer, error) {
	l, ok := (*s.set.Load())[ask.Limit]
	if !ok {
		return Answer{}, ErrUnknown
	}
	request, err := s.request(l, ask)
	if err != nil {
		return Answer{}, err
	}
	a, err := s.ask(context.WithoutCancel(ctx), l, ask.Operation, request) // hanging up early must not leave an event uncounted
	s.counted(ask.Limit, ask.Operation, outcome(ask.Operation, a, err))
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

func (s *Service) ask(ctx context.Context, l limit, o Operation, r quota.Request) (a Answer, err error) {
	switch o {
	case Peek:
		a.Decision, a.Degraded, err = s.gate.PeekOrAlone(ctx, r)
	case Take:
		a.Decision, a.Degraded, err = s.gate.TakeOrAlone(ctx, r)
	case Record:
		// A rule that observes counts and never refuses, so all buckets get the event in one step. The answer is that of the rules.
		r.Rules = l.observing
		a.Decision, a.Degraded, err = s.gate.TakeOrAlone(ctx, r)
		for i := range a.Rules {
			a.Rules[i].Observe = l.rules[i].Observe
		}
	}
	return a, err
}

func (s *Service) request(l limit, ask Ask) (quota.Request, error) {
	if len(ask.Keys) > MaxKeys {
		return quota.Request{}, &KeyError{"keys", "too_many", fmt.Sprintf("A request has at most %d keys.", MaxKeys)}
	}
	id, err := eventID(ask.ID)
	if err != nil {
		return quota.Request{}, err
	}
	r := quota.Request{ID: id, Rules: l.rules, Buckets: make(map[quota.Scope]string, len(l.keys))}
	for _, rule := range l.rules {
		if _, done := r.Buckets[rule.Scope]; done {
			continue
		}
		values := make([]string, 0, MaxKeys)
		for _, name := range l.keys[rule.Scope] {
			value, err := valueOf(ask.Keys, name)
			if err != nil {
				return quota.Request{}, err
			}
			values = append(values, value)
		}
		r.Buckets[rule.Scope] = quota.Bucket("limit", ask.App, ask.Limit, string(rule.Scope), s.hash(values))
	}
	return r, nil
}

func valueOf(keys map[string]string, name string) (string, error) {
	value := keys[name]
	switch field := "keys." + name; {
	case value == "":
		return "", &KeyError{field, "missing", "This limit counts by the key " + name + "."}
	case len(value) > MaxValue:
		return "", &KeyError{field, "too_long", fmt.Sprintf("A value has at most %d bytes.", MaxValue)}
	}
	return value, nil
}

// eventID is what the limiter calls an event: 16 bytes.
func eventID(id string) (string, error) {
	if len(id) > MaxValue {
		return "", &KeyError{"id", "too_long", fmt.Sprintf("An ID has at most %d bytes.", MaxValue)}
	}
	sum := sha256.Sum256([]byte(cmp.Or(id, rand.Text())))
	return string(sum[:16]), nil
}

// hash names values without telling them: 128 bits of an HMAC.
func (s *Service) hash(values []string) string {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(quota.Bucket(append([]string{"limit"}, values...)...)))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}
