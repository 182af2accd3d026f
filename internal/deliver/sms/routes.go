package sms

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Route is a carrier with the numbers that it takes.
type Route struct {
	Carrier  Carrier
	Prefixes []string // prefixes of the numbers that the carrier takes, with "+"; empty: all numbers
	// Prices has the price of a segment for each country, in millionths of the currency. For other
	// countries, DefaultPrice is the price.
	Prices map[string]int64
	// Polled: if the carrier is a Poller, it is polled for receipts.
	Polled       bool
	DefaultPrice int64
}

// costOf returns the cost of the message at this carrier.
func (r Route) costOf(m Message) int64 {
	price, ok := r.Prices[m.Country]
	if !ok {
		price = r.DefaultPrice
	}
	return price * int64(max(1, m.Segments))
}

// CarriersOptions has the senders of messages, and the functions that Carriers calls for each
// message.
type CarriersOptions struct {
	Sender  string            // sender of messages; empty: the carrier's choice
	Senders map[string]string // by country; takes the place of Sender
	// CallbackURL returns the URL to which the carrier posts the receipt of a send. If CallbackURL
	// is nil, carriers get no URL.
	CallbackURL func(carrier, send string) string
	// Reserve reserves the cost of a message before the message is offered to a carrier. It returns
	// a function that releases the cost again. If Reserve fails, Send skips the carrier and goes on
	// to the next one. If no carrier gets the message, Send may return the error of Reserve; see
	// Send. If the field Reserve is nil, no cost is reserved.
	Reserve func(ctx context.Context, m Message, cost int64) (back func(), fail *delivery.Error)
	// OnHealthChange is called when a carrier is set aside, and when the carrier is up again. The
	// function must return soon and must not call methods of Carriers. It may be nil.
	OnHealthChange func(delivery.Health)
	// OnAttempt is called after each attempt, with the context that Send got. If the carrier
	// accepted the message, the parameter fail is nil. OnAttempt must not block. It may be nil.
	OnAttempt func(ctx context.Context, carrier string, fail *delivery.Error, took time.Duration)
}

// Carriers has the routes in order of preference, each with a circuit breaker. A breaker sets its
// carrier aside after three failed attempts in a row. It also sets the carrier aside if at least
// half of ten or more attempts within a minute fail. A carrier that is set aside gets only one
// message every five seconds. Some failures may concern only the number. The breaker counts one
// such failure for each prefix of numbers within rememberFailuresFor. If the message is a
// stranger's (see Message.Stranger), the breaker never counts such a failure.
type Carriers struct {
	CarriersOptions
	routes []*routeWithBreaker
}

type routeWithBreaker struct {
	Route
	breaker *delivery.Breaker

	mu     sync.Mutex
	failed map[string]time.Time // prefix -> time of the last counted failure that may concern only the number
}

const (
	// rememberFailuresFor is longer than the minute over which a breaker counts. So the breaker
	// counts at most one failure of a prefix in that minute.
	rememberFailuresFor   = 2 * time.Minute
	maxRememberedPrefixes = 64
)

const (
	errAllSetAside = delivery.SafeError("every carrier that may reach the number is set aside after failures")
	errNoRoute     = delivery.SafeError("no carrier takes the number")
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

// Send offers the message to the carriers one after the other, in the order of
// delivery.UnusedFirst. Send goes on to the next carrier only if the previous carrier certainly did
// not accept the message. That is so after a Temporary failure, or if delivery.Error.MayGoElsewhere
// is true for the failure. Any other failure ends Send.
//
// Send normally returns the result and the error of the last carrier that it tried. There are two
// exceptions, which apply only if Send tried no carrier, if the last failure is Temporary, or if
// MayGoElsewhere is true for it:
//
//   - If another carrier may take the message later, Send returns a Temporary error, so that the
//     caller tries again. If carriers failed with a Temporary failure, Send returns the result and
//     the error of the one with the shortest RetryAfter. If another carrier was skipped because its
//     breaker is open, RetryAfter is 0. If carriers were only skipped, the error has the stage
//     StageAllSetAside.
//   - Otherwise, if CarriersOptions.Reserve failed, Send returns the error of Reserve.
//
// Took in the result is the duration of the whole call.
func (c *Carriers) Send(ctx context.Context, m Message) (delivery.Result, error) {
	began := time.Now()
	m.Sender = c.Sender
	if sender, ok := c.Senders[m.Country]; ok {
		m.Sender = sender
	}
	receipt, fail := c.tryEach(ctx, m)
	receipt.Took = time.Since(began)
	if fail != nil {
		return receipt, fail
	}
	return receipt, nil
}

func (c *Carriers) tryEach(ctx context.Context, m Message) (receipt delivery.Result, fail *delivery.Error) {
	fail = &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errNoRoute}
	var over *delivery.Error  // why Reserve failed
	var waits *delivery.Error // error of the carrier that may take the message soonest; waited has that carrier's result
	var waited delivery.Result
	skipped := false
	order := delivery.UnusedFirst(c.routes, m.Used, func(r *routeWithBreaker) string { return r.Carrier.Name() },
		func(r *routeWithBreaker) bool { return r.breaker.IsWell() })
	for _, r := range order {
		if !r.acceptsNumber(m.To) {
			continue
		}
		report, ok := r.breaker.Allow()
		if !ok {
			skipped = true
			continue
		}
		got, failed, unpaid := c.attempt(ctx, r, m, report)
		if unpaid != nil {
			if over == nil || unpaid.Class == delivery.Temporary {
				over = unpaid
			}
			continue
		}
		receipt, fail = got, failed
		temporary := fail != nil && fail.Class == delivery.Temporary
		if temporary && (waits == nil || fail.RetryAfter <= waits.RetryAfter) {
			waits, waited = fail, receipt
		}
		goesOn := temporary || fail.MayGoElsewhere(r.Carrier.Name(), m.Used, m.Took)
		if !goesOn || ctx.Err() != nil {
			break
		}
	}
	if skipped { // the carrier that was skipped may take the message sooner
		waits = cmp.Or(waits, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAllSetAside, Err: errAllSetAside})
		waits.RetryAfter = 0
	}
	if fail != nil && fail.Class == delivery.Temporary || fail.MayGoElsewhere(receipt.Provider, m.Used, m.Took) {
		if waits != nil {
			return waited, waits
		}
		fail = cmp.Or(over, fail)
	}
	return receipt, fail
}

// attempt reserves the cost of the message and offers the message to one carrier. It calls report,
// a function of the carrier's breaker, with the result. unpaid is the error of Reserve.
func (c *Carriers) attempt(ctx context.Context, r *routeWithBreaker, m Message, report func(error)) (receipt delivery.Result,
	fail, unpaid *delivery.Error,
) {
	var health error = delivery.ErrHealthUnknown // if Reserve fails, and after a panic
	defer func() { report(health) }()
	back, unpaid := c.Reserve(ctx, m, r.costOf(m))
	if unpaid != nil {
		return receipt, nil, unpaid
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
	receipt, fail = r.Carrier.Send(ctx, m)
	receipt.Provider, used = r.Carrier.Name(), fail.MayBeAccepted()
	delivery.SetHandover(ctx, used)
	health = r.breakerResult(m, fail)
	if m.Stranger {
		fail.NoteStranger()
	}
	if c.OnAttempt != nil {
		c.OnAttempt(ctx, r.Carrier.Name(), fail, time.Since(began))
	}
	return receipt, fail, nil
}

func (r *routeWithBreaker) acceptsNumber(number string) bool {
	return len(r.Prefixes) == 0 ||
		slices.ContainsFunc(r.Prefixes, func(p string) bool { return strings.HasPrefix(number, p) })
}

// breakerResult returns the result of delivery.Error.BreakerResult, with exceptions for a Temporary
// failure that may concern only the number. Only the first such failure of a prefix is a fault of
// the carrier; see noteFirstFailure. If the message is a stranger's, such a failure is never a
// fault, because one stranger can choose many bad numbers.
func (r *routeWithBreaker) breakerResult(m Message, fail *delivery.Error) error {
	if fail == nil || fail.Class != delivery.Temporary || fail.About != delivery.AboutRecipient {
		return fail.BreakerResult()
	}
	if m.Stranger || !r.noteFirstFailure(m.Prefix) {
		return delivery.ErrHealthUnknown
	}
	return fail
}

// noteFirstFailure remembers a failure of a prefix. It returns true if the prefix had no remembered
// failure within rememberFailuresFor. If maxRememberedPrefixes prefixes are already remembered, it
// remembers nothing and returns false.
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

// routeByName returns the route to the carrier with this name. If no carrier has the name, it
// returns an empty route.
func (c *Carriers) routeByName(name string) *routeWithBreaker {
	for _, r := range c.routes {
		if r.Carrier.Name() == name {
			return r
		}
	}
	return &routeWithBreaker{}
}

// HasUnreachableNumbers returns whether some numbers cannot be reached now. suspended is true if,
// for some numbers, every carrier is set aside. Messages to these numbers wait for the next attempt
// that a carrier's breaker allows. untried is true if, for some numbers, no breaker allows an
// attempt now.
func (c *Carriers) HasUnreachableNumbers() (suspended, untried bool) {
	suspended = c.someNumbersUnserved(func(r *routeWithBreaker) bool { return r.breaker.Health().Up })
	return suspended, suspended && c.someNumbersUnserved(func(r *routeWithBreaker) bool { return r.breaker.AttemptsAllowed() > 0 })
}

// someNumbersUnserved reports whether no carrier that takes some numbers is usable.
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

// AttemptsAllowed returns how many messages would be tried now. If a carrier is up, the result is
// delivery.UnlimitedAttempts. Otherwise the result is the number of carriers that may try a
// message.
func (c *Carriers) AttemptsAllowed() (n int) {
	for _, r := range c.routes {
		n += min(r.breaker.AttemptsAllowed(), delivery.UnlimitedAttempts-n)
		if n == delivery.UnlimitedAttempts {
			break
		}
	}
	return n
}

// RecheckSuspended probes each carrier that is set aside and has no message under way. A carrier
// that answers as expected is up again. A carrier without a probe stays set aside.
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
