// Package webhook delivers events to apps: about sends, verifications and low conversion. The
// database writes an event in the same transaction as the change that the event describes. This
// package reads the event from the database, signs it by Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md), and
// posts it to the app's address.
//
// No API request and no send waits for a delivery. Any replica can deliver an event. Leases in the
// database ensure that it is delivered at least once, each time with the same webhook-id. If all
// attempts fail for a day, the event is given up. Each app has its own bound on attempts under way,
// which shrinks to one while its receiver fails, so a dead receiver delays only its own events.
//
// The owner of the name in an address decides to which IP address the name resolves, perhaps to one
// in the service's own network. Every connection's IP address is therefore checked when it is
// dialled (see Guard).
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

// These are the outcomes of an attempt that the observer counts.
const (
	Delivered = "delivered"
	Retried   = "retried"
	GivenUp   = "given_up"
)

// Observer counts attempts, for metrics. It must not block.
type Observer interface {
	// Attempted counts an attempt that ended with this outcome. If app is empty, it counts an event
	// that was given up without a further attempt, because the event was still pending after
	// keepEventsFor.
	Attempted(app, outcome string)
}

// Tracer makes a trace of each attempt. BeginWebhookAttempt begins the trace and returns a context
// with it. EndWebhookAttempt ends the trace, with the answer. Implementation: traces.Traces.
type Tracer interface {
	BeginWebhookAttempt(ctx context.Context, e store.AppEvent) context.Context
	EndWebhookAttempt(ctx context.Context, answer string, failed bool)
}

// Dependencies are the services that a Deliverer uses.
type Dependencies struct {
	DB       Database
	Logger   *slog.Logger
	Observer Observer
	Tracer   Tracer // nil: there are no traces
	// If Now is nil, time.Now is used. Only webhook-timestamp and the events of PostSample use Now.
	// All other times come from the database's clock.
	Now    func() time.Time
	Tick   time.Duration                     // between two reads of due events; 0: one second
	Random func(time.Duration) time.Duration // returns a random duration below the given one; nil: rand.N
	// Transport carries the requests in tests. If Transport is nil, requests use connections that
	// the guard has allowed.
	Transport http.RoundTripper
}

const (
	// attemptTimeout bounds one attempt, from the name's look-up to the end of the answer.
	attemptTimeout = 15 * time.Second
	// leaseDuration is longer than an attempt and the recording of its result take together. After
	// a crash, an event waits until its lease ends.
	leaseDuration = 30 * time.Second
	// defaultTick is Dependencies.Tick unless that is set.
	defaultTick = time.Second
	// retryFor is the age at which a failing event is given up.
	retryFor = 24 * time.Hour
	// keepEventsFor is how long an event is kept after it was delivered or given up. It is also the
	// age at which an event that is still pending is given up, for example because its app has no
	// endpoint. An event whose attempts fail is given up earlier, after retryFor.
	keepEventsFor = 7 * 24 * time.Hour
	// sweepInterval is the time between two deletions of old events. sweepLimit is how many events
	// one call of the database deletes at most, and how many it gives up.
	sweepInterval = 10 * time.Minute
	sweepLimit    = 1000
	// maxStopWait is how long a stop waits for attempts under way.
	maxStopWait = 5 * time.Second
)

// maxAttemptsPerApp is the most attempts for one app that this process makes at once.
const maxAttemptsPerApp = 16
