// Package webhook delivers events about sends and verifications to apps. An event is written to the
// database in the transaction of its change. This package takes it from there and posts it to the
// app's address, signed by Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
//
// No request and no send waits for a delivery. An event is delivered at least once, by any replica,
// with the same webhook-id each time, or given up after a day; leases in the database ensure that.
// Each app has its own bound on attempts under way. The bound shrinks to one while the app's
// receiver fails, so that a dead receiver delays only its own events.
//
// The configuration names an address, but the app decides where its name leads. So every connection
// is checked when it is dialled, after the name was resolved (see Guard).
package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"sendcode/internal/store"
)

// Database has the events to deliver. Implementation: sqldb.DB.
type Database interface {
	LeaseDueAppEvents(ctx context.Context, lease time.Duration, shares []store.AppEventLimit) ([]store.AppEvent, time.Time, error)
	EndAppEventAttempt(ctx context.Context, end store.AppEventOutcome) (bool, error)
	ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error)
}

// Endpoint is the address that gets an app's events.
type Endpoint struct {
	URL     string
	Secrets [][]byte // one or two keys, each of which signs every event
}

// Settings may change while events are delivered; see Deliverer.ChangeSettings.
type Settings struct {
	Endpoints map[string]Endpoint // by app
	Guard     Guard
}

// The outcomes of an attempt that the observer counts.
const (
	Delivered = "delivered"
	Retried   = "retried"
	GivenUp   = "given_up"
)

// Observer counts attempts, for metrics. It must not block.
type Observer interface {
	// Attempted counts an attempt that ended with the outcome. With an empty app, it counts an
	// event that was given up because no process tried to deliver it any longer.
	Attempted(app, outcome string)
}

// Tracer makes a trace of each attempt. BeginEvent begins the trace and returns a context with it.
// EndEvent ends the trace, with the answer. Implementation: traces.Traces.
type Tracer interface {
	BeginEvent(ctx context.Context, e store.AppEvent) context.Context
	EndEvent(ctx context.Context, answer string, failed bool)
}

// Dependencies are the services that a Deliverer uses.
type Dependencies struct {
	DB       Database
	Logger   *slog.Logger
	Observer Observer
	Tracer   Tracer // nil: there are no traces
	// nil: time.Now. Only webhook-timestamp and samples use it; all other times are on the
	// database's clock
	Now    func() time.Time
	Tick   time.Duration                     // between two reads of due events; 0: one second
	Random func(time.Duration) time.Duration // returns a random duration below the given one; nil: rand.N
	// Transport carries the requests of tests; nil: connections that the guard has let through.
	Transport http.RoundTripper
}

// Durations of the delivery.
const (
	// attemptTimeout bounds one attempt, from the name's look-up to the end of the answer.
	attemptTimeout = 15 * time.Second
	// leaseDuration is longer than an attempt and the recording of its result. After a crash an
	// event waits until its lease ends.
	leaseDuration = 30 * time.Second
	// defaultTick is Dependencies.Tick unless that is set.
	defaultTick = time.Second
	// retryFor is the age at which a failing event is given up.
	retryFor = 24 * time.Hour
	// keepEventsFor is how long an event is kept after it ended. An event that is still pending at
	// this age, for example because its app has no endpoint, is given up.
	keepEventsFor = 7 * 24 * time.Hour
	// sweepInterval is the time between two deletions of old events, and sweepLimit the most that
	// one step deletes.
	sweepInterval = 10 * time.Minute
	sweepLimit    = 1000
	// maxStopWait is how long a stop waits for attempts under way.
	maxStopWait = 5 * time.Second
)

// maxAttemptsPerApp is the most attempts for one app that this process makes at once.
const maxAttemptsPerApp = 16
