package sms

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Route is a carrier with the numbers for which it is used.
type Route struct {
	Carrier  Carrier
	Prefixes []string // of the numbers for which it is used, with "+"; empty: all
	// Prices has the price of a segment by country, in millionths of the currency. DefaultPrice is
	// for all other countries.
	Prices map[string]int64
	// Polled says that the carrier, if it is a Poller, is polled for receipts.
	Polled       bool
	DefaultPrice int64
}

func (r Route) costOf(m Message) int64 {
	price, ok := r.Prices[m.Country]
	if !ok {
		price = r.DefaultPrice
	}
	return price * int64(max(1, m.Segments))
}

// CarriersOptions configures Carriers. Each of the functions may be nil.
type CarriersOptions struct {
	Sender  string            // empty: the carrier's choice
	Senders map[string]string // by country, instead of Sender
	// CallbackURL returns where the carrier posts the receipt of a send.
	CallbackURL func(carrier, send string) string
	// Reserve reserves a message's cost before the message is offered to a carrier, and returns a
	// function that releases it. If it fails, Send goes on to the next carrier.
	Reserve func(ctx context.Context, m Message, cost int64) (back func(), fail *delivery.Error)
	// OnHealthChange is called when a carrier is set aside, and when it is up again. It must return
	// soon and call no method of Carriers.
	OnHealthChange func(delivery.Health)
	// OnAttempt is called after each attempt, with Send's context; fail is nil if the carrier
	// accepted the message. It must not block.
	OnAttempt func(ctx context.Context, carrier string, fail *delivery.Error, took time.Duration)
}

// Carriers has the routes in order of preference, each with a circuit breaker. It sets a carrier
// aside after three failed attempts in a row, or if at least half of ten or more attempts within a
// minute fail. The carrier then gets only one message every five seconds. Of the failures that may
// concern only the number, it counts one for each prefix within rememberFailuresFor. It does not
// count such a failure if the message was for a stranger.
type Carriers struct {
	CarriersOptions
	routes []*routeWithBreaker
}

type routeWithBreaker struct {
	Route
	breaker *delivery.Breaker

	mu     sync.Mutex
	failed map[string]time.Time // by prefix, the last counted failure that may concern only the number
}

const (
	// rememberFailuresFor is longer than the minute over which a breaker counts, so in that minute
	// a prefix counts at most once.
	rememberFailuresFor   = 2 * time.Minute
	maxRememberedPrefixes = 64
)

const (
	errAllSetAside = delivery.SafeError("every carrier that may reach the number is set aside after failures")
	errNoRoute     = delivery.SafeError("no carrier accepts the number")
)

// NewCarriers returns Carriers that prefer the routes in this order.
func NewCarriers(routes []Route, o CarriersOptions) *Carriers {
	c := &Carriers{CarriersOptions: o}
	if c.Reserve == nil {
		c.Reserve = func(context.Context, Message, int64) (func(), *delivery.Error) { return func() {}, nil }
	}
	for _, r := range routes {
		breaker := delivery.NewBreaker(r.Carrier.Name(), true)
		breaker.OnHealthChange(o.OnHealthChange)
		c.routes = append(c.routes, &routeWithBreaker{Route: r, breaker: breaker, failed: map[string]time.Time{}})
	}
	return c
}

// Send offers the message to one carrier after the other, in the order of delivery.UnusedFirst. It
// goes on to the next carrier only if the last one certainly didn't accept the message and another
// carrier may accept it. See delivery.Attempts, which also says what Send returns. Took in the
// result is for the whole call.
func (c *Carriers) Send(ctx context.Context, m Message) (delivery.Result, error) {
	began := time.Now()
	m.Sender = c.Sender
	if sender, ok := c.Senders[m.Country]; ok {
		m.Sender = sender
	}
	result, fail := c.tryEach(ctx, m)
	result.Took = time.Since(began)
	if fail != nil {
		return result, fail
	}
	return result, nil
}

func (c *Carriers) tryEach(ctx context.Context, m Message) (delivery.Result, *delivery.Error) {
	routes := slices.DeleteFunc(slices.Clone(c.routes), func(r *routeWithBreaker) bool { return !r.acceptsNumber(m.To) })
	if len(routes) == 0 {
		return delivery.Result{}, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errNoRoute}
	}
	attempts := delivery.NewAttempts(m.Used, m.AcceptedBy, errAllSetAside)
	order := delivery.UnusedFirst(routes, m.Used, func(r *routeWithBreaker) string { return r.Carrier.Name() },
		func(r *routeWithBreaker) bool { return r.breaker.IsWell() })
	for _, r := range order {
		report, ok := r.breaker.Allow()
		if !ok {
			attempts.Skip(false)
			continue
		}
		got, failed, unpaid := c.attempt(ctx, r, m, report)
		if unpaid != nil {
			attempts.Decline(unpaid)
			continue
		}
		if goesOn := attempts.Note(got, failed); !goesOn || ctx.Err() != nil {
			break
		}
	}
	return attempts.Outcome()
}

// attempt reserves the cost, offers the message to one carrier, and reports the outcome to the
// carrier's breaker. unpaid is the error of Reserve.
func (c *Carriers) attempt(ctx context.Context, r *routeWithBreaker, m Message, report func(error)) (result delivery.Result,
	fail, unpaid *delivery.Error,
) {
	var health error = delivery.ErrHealthUnknown // if Reserve fails, and after a panic
	defer func() { report(health) }()
	back, unpaid := c.Reserve(ctx, m, r.costOf(m))
	if unpaid != nil {
		return result, nil, unpaid
	}
	used := false
	defer func() {
		if !used && !delivery.HandedOver(ctx) {
			back()
		}
	}()
	m.CallbackURL = ""
	if c.CallbackURL != nil {
		m.CallbackURL = c.CallbackURL(r.Carrier.Name(), m.ID)
	}
	began := time.Now()
	result, fail = r.Carrier.Send(ctx, m)
	result.Provider, used = r.Carrier.Name(), fail.MayBeAccepted()
	delivery.SetHandover(ctx, used)
	health = r.breakerResult(m, fail)
	if m.Stranger {
		fail.NoteStranger()
	}
	if c.OnAttempt != nil {
		c.OnAttempt(ctx, r.Carrier.Name(), fail, time.Since(began))
	}
	return result, fail, nil
}

func (r *routeWithBreaker) acceptsNumber(number string) bool {
	return len(r.Prefixes) == 0 ||
		slices.ContainsFunc(r.Prefixes, func(p string) bool { return strings.HasPrefix(number, p) })
}

// breakerResult returns delivery.Error.BreakerResult, except for a Temporary failure that may
// concern only the number. Such a failure counts against the carrier only if it is the first
// failure of its prefix within rememberFailuresFor. If the message is for a stranger, the failure
// never counts, because one stranger can choose many bad numbers.
func (r *routeWithBreaker) breakerResult(m Message, fail *delivery.Error) error {
	if fail == nil || fail.Class != delivery.Temporary || fail.About != delivery.AboutRecipient {
		return fail.BreakerResult()
	}
	if m.Stranger || !r.noteFirstFailure(m.Prefix) {
		return delivery.ErrHealthUnknown
	}
	return fail
}

// noteFirstFailure reports whether a prefix had no failure within rememberFailuresFor, and
// remembers this failure. Beyond maxRememberedPrefixes it returns false.
func (r *routeWithBreaker) noteFirstFailure(prefix string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.failed, func(_ string, at time.Time) bool { return now.Sub(at) >= rememberFailuresFor })
	if _, known := r.failed[prefix]; known || len(r.failed) >= maxRememberedPrefixes {
		return false
	}
	r.failed[prefix] = now
	return true
}

// routeByName returns the route of a carrier, or an empty route if no carrier has this name.
func (c *Carriers) routeByName(name string) *routeWithBreaker {
	for _, r := range c.routes {
		if r.Carrier.Name() == name {
			return r
		}
	}
	return &routeWithBreaker{}
}

// HasUnreachableNumbers returns two results. suspended means that for some numbers every carrier is
// set aside, so messages to them wait for the next attempt that a breaker allows. noAttemptAllowed
// means that for some numbers no breaker allows an attempt now.
func (c *Carriers) HasUnreachableNumbers() (suspended, noAttemptAllowed bool) {
	suspended = c.someNumbersUnserved(func(r *routeWithBreaker) bool { return r.breaker.Health().Up })
	return suspended, suspended && c.someNumbersUnserved(func(r *routeWithBreaker) bool { return r.breaker.AttemptsAllowed() > 0 })
}

func (c *Carriers) someNumbersUnserved(usable func(*routeWithBreaker) bool) bool {
	for _, r := range c.routes {
		prefixes := r.Prefixes
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		for _, prefix := range prefixes { // prefix stands for all numbers that begin with it
			if !slices.ContainsFunc(c.routes, func(other *routeWithBreaker) bool {
				return other.acceptsNumber(prefix) &&
					usable(other)
			}) {
				return true
			}
		}
	}
	return false
}

// AttemptsAllowed returns how many messages would be tried now. That is delivery.UnlimitedAttempts
// if a carrier is up, otherwise one for each carrier whose breaker allows an attempt.
func (c *Carriers) AttemptsAllowed() (n int) {
	for _, r := range c.routes {
		n += min(r.breaker.AttemptsAllowed(), delivery.UnlimitedAttempts-n)
		if n == delivery.UnlimitedAttempts {
			break
		}
	}
	return n
}

// ConnLimit returns 0, because only the number of workers limits the requests to carriers.
func (c *Carriers) ConnLimit() int { return 0 }

// RecheckSuspended probes each carrier that is set aside, may be tried now and has no message under
// way. If the probe succeeds, the carrier is up again. A carrier without a probe stays set aside
// until a message to it succeeds.
func (c *Carriers) RecheckSuspended(ctx context.Context) {
	for _, r := range c.routes {
		r.breaker.Recheck(ctx, func(ctx context.Context) error {
			_, err := Probe(ctx, r.Carrier)
			if err == errNoProbe {
				return delivery.ErrHealthUnknown
			}
			return err
		})
	}
}

// Health returns the health of each carrier, in order of preference.
func (c *Carriers) Health() []delivery.Health {
	var all []delivery.Health
	for _, r := range c.routes {
		all = append(all, r.breaker.Health())
	}
	return all
}
