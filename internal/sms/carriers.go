package sms

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/delivery"
)

// Route is a carrier with the numbers that it takes.
type Route struct {
	Carrier  Carrier
	Prefixes []string // of numbers, with their "+"; none: all
	// Prices are what a segment costs by country, in millionths of the currency; DefaultPrice where none is named.
	Prices map[string]int64
	// Asked has the carrier asked what became of messages, where it can be.
	Asked        bool
	DefaultPrice int64
}

// cost is what the message costs at this carrier.
func (r Route) cost(m Message) int64 {
	price, ok := r.Prices[m.Country]
	if !ok {
		price = r.DefaultPrice
	}
	return price * int64(max(1, m.Segments))
}

// Options are what all messages have in common.
type Options struct {
	Sender  string            // what they come from; empty: the carrier's choice
	Senders map[string]string // the same by country
	// Callback gives the URL at which a carrier tells what became of a send; nil: nowhere.
	Callback func(carrier, send string) string
	// Reserve sets the cost of a message aside before a carrier hears of it, and gives what takes it back. Its failure is
	// the message's, unless another carrier is cheaper. May be nil.
	Reserve func(ctx context.Context, m Message, cost int64) (back func(), fail *Error)
	// Watch hears when a carrier is set aside or is up again. It must return soon, and not call Carriers. May be nil.
	Watch func(delivery.Health)
}

// Carriers are routes in order of preference, each behind a circuit breaker: one that fails three times in a row, or half of
// ten times and more within a minute, is set aside, and tried again by one message every five seconds.
type Carriers struct {
	Options
	routes []*route
}

type route struct {
	Route
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu     sync.Mutex // never held while the breaker is called
	health delivery.Health
	fault  string
}

// What it takes to set a carrier aside, and for how long.
const (
	faultsInRow = 3
	rateFrom    = 10 // attempts within ratePeriod from which the rate counts
	ratePeriod  = time.Minute
	restFor     = 5 * time.Second
)

const (
	errAside   = Problem("every carrier that takes the number is set aside after failures")
	errNoRoute = Problem("no carrier takes the number")
)

// NewCarriers puts carriers in order.
func NewCarriers(routes []Route, o Options) *Carriers {
	c := &Carriers{Options: o}
	for _, r := range routes {
		at := &route{Route: r, health: delivery.Health{Server: r.Carrier.Name(), Up: true}}
		at.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Interval: ratePeriod, Timeout: restFor,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.ConsecutiveFailures >= faultsInRow || n.Requests >= rateFrom && 2*n.TotalFailures >= n.Requests
			},
			IsExcluded:    func(err error) bool { return err == errNoVerdict },
			OnStateChange: func(_ string, _, to gobreaker.State) { c.moved(at, to) },
		})
		c.routes = append(c.routes, at)
	}
	return c
}

func (c *Carriers) moved(r *route, to gobreaker.State) {
	r.mu.Lock()
	up := to == gobreaker.StateClosed
	changed := up != r.health.Up
	if changed {
		r.health.Up, r.health.Since, r.health.Why = up, time.Now(), ""
		if !up {
			r.health.Why = r.fault
		}
	}
	now := r.health
	r.mu.Unlock()
	if changed && c.Watch != nil {
		c.Watch(now)
	}
}

// Send offers the message to one carrier after the other. It goes on only from a Temporary failure, after which the message
// was certainly not accepted: what was rejected or may have been accepted is never offered to another carrier. Receipt and
// error are the last tried one's, Took is the whole.
func (c *Carriers) Send(ctx context.Context, m Message) (Receipt, error) {
	began := time.Now()
	if sender, ok := c.Senders[m.Country]; ok {
		m.Sender = sender
	} else {
		m.Sender = c.Sender
	}
	receipt, fail := c.round(ctx, m)
	receipt.Took = time.Since(began)
	if fail != nil {
		return receipt, fail
	}
	return receipt, nil
}

func (c *Carriers) round(ctx context.Context, m Message) (receipt Receipt, fail *Error) {
	fail = &Error{Class: delivery.Temporary, Stage: StageDial, Err: errNoRoute}
	aside := &Error{Class: delivery.Temporary, Stage: delivery.StageAside, Err: errAside}
	var over *Error // why a carrier could not be paid
	for _, r := range c.routes {
		if !r.takes(m.To) {
			continue
		}
		done, err := r.breaker.Allow()
		if err != nil {
			if fail.Err == errNoRoute {
				fail = aside
			}
			continue
		}
		back, unpaid := c.reserve(ctx, r, m)
		if unpaid != nil {
			done(errNoVerdict)
			if over == nil || unpaid.Class == delivery.Temporary {
				over = unpaid
			}
			continue
		}
		receipt, fail = c.offer(ctx, r, m)
		r.report(done, verdictOn(ctx, fail), fail)
		if fail != nil && fail.Class != delivery.Unknown {
			back()
		}
		if fail == nil || fail.Class != delivery.Temporary || ctx.Err() != nil {
			break
		}
	}
	if over != nil && fail != nil && fail.Err == errNoRoute { // and no carrier that may take it later
		fail = over
	}
	return receipt, fail
}

func (c *Carriers) reserve(ctx context.Context, r *route, m Message) (func(), *Error) {
	if c.Reserve == nil {
		return func() {}, nil
	}
	return c.Reserve(ctx, m, r.cost(m))
}

func (c *Carriers) offer(ctx context.Context, r *route, m Message) (Receipt, *Error) {
	m.Callback = ""
	if c.Callback != nil {
		m.Callback = c.Callback(r.Carrier.Name(), m.ID)
	}
	receipt, err := r.Carrier.Send(ctx, m)
	if err == nil {
		return receipt, nil
	}
	fail, ok := err.(*Error)
	if !ok { // no carrier of ours, and nothing is known
		fail = &Error{Class: delivery.Unknown, Stage: StageRequest, Err: ErrAnswer}
	}
	return receipt, fail
}

func (r *route) takes(number string) bool {
	return len(r.Prefixes) == 0 || slices.ContainsFunc(r.Prefixes, func(p string) bool { return strings.HasPrefix(number, p) })
}

func (r *route) report(done func(error), verdict error, fail *Error) {
	if verdict == errFault {
		r.mu.Lock()
		r.fault = fail.Error()
		r.mu.Unlock()
	}
	done(verdict)
}

// What an attempt says about the carrier; nil where it did its work.
const (
	errFault     = Problem("the carrier is at fault")
	errNoVerdict = Problem("nothing is known about the carrier")
)

// verdictOn reads an outcome for what it says about the carrier, not about the message.
func verdictOn(ctx context.Context, fail *Error) error {
	switch {
	case fail == nil, fail.Class == delivery.Rejected:
		return nil
	case ctx.Err() != nil, fail.Stage == StageMessage:
		return errNoVerdict
	}
	return errFault
}

// Health says of each carrier whether it is up, in order of preference.
func (c *Carriers) Health() []delivery.Health {
	var all []delivery.Health
	for _, r := range c.routes {
		r.mu.Lock()
		all = append(all, r.health)
		r.mu.Unlock()
	}
	return all
}
