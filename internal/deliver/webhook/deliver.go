package webhook

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/store"
)

// Deliverer delivers events until they arrive or are given up. It is safe for concurrent use.
type Deliverer struct {
	Dependencies
	wake chan struct{}
	done sync.WaitGroup

	base           context.Context // context of attempts; it ends when Run has stopped, at most maxStopWait after ctx of Run ended
	cancelAttempts context.CancelFunc

	mu             sync.Mutex
	settings       Settings
	client         *client
	lanes          map[string]*appLane // by app
	databaseFailed bool                // the database did not answer the last time
}

// appLane bounds the attempts of one app that are under way.
type appLane struct {
	underWay int
	share    int  // bound on underWay: a failure halves it, and a delivery raises it by one
	more     bool // the last read of the database returned as many events as there was room for, so there may be more
}

// New makes a deliverer. Nothing is delivered until Run.
func New(s Settings, p Dependencies) *Deliverer {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Random == nil {
		p.Random = rand.N[time.Duration]
	}
	if p.Tick == 0 {
		p.Tick = defaultTick
	}
	d := &Deliverer{Dependencies: p, lanes: map[string]*appLane{}, wake: make(chan struct{}, 1)}
	d.base, d.cancelAttempts = context.WithCancel(context.Background())
	d.ChangeSettings(s)
	return d
}

// ChangeSettings puts new settings in force. Attempts under way keep the old settings. If an app
// has no endpoint, its events are kept for keepEventsFor. They are delivered if the app gets an
// endpoint in that time.
func (d *Deliverer) ChangeSettings(s Settings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.client
	d.settings, d.client = s, newClient(s.Guard, d.Now, dialSettings{})
	if d.Transport != nil {
		d.client.Transport = d.Transport
	}
	if before != nil {
		before.CloseIdleConnections() // the new guard may forbid the addresses of these connections
	}
	d.Wake()
}

// Wake makes Run look for due events at once. It does not block.
func (d *Deliverer) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run delivers events until ctx ends. Then it waits at most maxStopWait for attempts under way.
// Another replica delivers the remaining events, or this process does after its next start.
func (d *Deliverer) Run(ctx context.Context) {
	ticks := time.NewTicker(d.Tick)
	defer ticks.Stop()
	defer d.drain()
	for sweep := time.Now(); ; {
		if now := time.Now(); !now.Before(sweep) {
			sweep = now.Add(sweepInterval)
			d.sweepEvents(ctx)
		}
		d.startDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-ticks.C:
		case <-time.After(time.Until(sweep)):
		}
	}
}

func (d *Deliverer) drain() {
	patience := time.AfterFunc(maxStopWait, d.cancelAttempts)
	defer patience.Stop()
	d.done.Wait()
	d.cancelAttempts()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.client.CloseIdleConnections()
}

// startDue starts attempts for due events. Each app has a bound on its attempts under way, which
// rises after a success and falls after a failure. startDue starts only as many attempts as the
// bounds allow.
func (d *Deliverer) startDue(ctx context.Context) {
	defer panics.Recover(panics.Other)
	shares := d.freeShares()
	if len(shares) == 0 || ctx.Err() != nil {
		return
	}
	events, now, err := d.DB.LeaseDueAppEvents(ctx, leaseDuration, shares)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if !d.databaseFailed && ctx.Err() == nil {
			d.Logger.Warn("could not read webhook events; retrying", "error", err, logs.SeeEvents)
		}
		d.databaseFailed = true
		return
	}
	d.databaseFailed = false
	counts := map[string]int{}
	for _, e := range events {
		counts[e.App]++
		d.startAttempt(e, now)
	}
	for _, s := range shares {
		l := d.lanes[s.App]
		l.more = counts[s.App] == s.Limit
		if l.more && l.underWay < l.share { // an attempt ended meanwhile, before l.more was set
			d.Wake()
		}
	}
}

// freeShares returns how many more attempts each app may have under way. The result leaves out apps
// that have as many attempts under way as their bound allows.
func (d *Deliverer) freeShares() (shares []store.AppEventLimit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for app := range d.settings.Endpoints {
		l := d.lanes[app]
		if l == nil {
			l = &appLane{share: maxAttemptsPerApp}
			d.lanes[app] = l
		}
		if n := l.share - l.underWay; n > 0 {
			shares = append(shares, store.AppEventLimit{App: app, Limit: n})
		}
	}
	return shares
}

// startAttempt runs one attempt in a goroutine. The caller holds d.mu.
func (d *Deliverer) startAttempt(e store.AppEvent, now time.Time) {
	to, c, l := d.settings.Endpoints[e.App], d.client, d.lanes[e.App]
	l.underWay++
	d.done.Go(func() {
		defer panics.Recover(panics.Other)
		got := attemptResult{word: "internal"}
		end := sync.OnceFunc(func() { d.endAttempt(l, got) })
		defer end()
		ctx := d.base
		if d.Tracer != nil {
			ctx = d.Tracer.BeginWebhookAttempt(ctx, e)
		}
		got = c.postEvent(ctx, to, e)
		if d.Tracer != nil {
			d.Tracer.EndWebhookAttempt(ctx, got.word, !got.ok)
		}
		end()
		d.recordResult(e, now.Sub(e.At), got)
	})
}

// endAttempt counts an attempt as ended, before its result is recorded. It raises the app's bound
// on attempts under way after a success, and lowers the bound after a failure.
func (d *Deliverer) endAttempt(l *appLane, got attemptResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.underWay--
	if got.ok {
		l.share = min(l.share+1, maxAttemptsPerApp)
	} else {
		l.share = max(l.share/2, 1)
	}
	if l.more {
		d.Wake()
	}
}

// recordResult writes the result of an attempt. If the database fails, the event is delivered again
// after its lease, so it may arrive twice but is not lost.
func (d *Deliverer) recordResult(e store.AppEvent, age time.Duration, got attemptResult) {
	end := store.AppEventOutcome{
		AttemptID: store.AttemptID{ID: e.ID, Attempt: e.Attempt}, Answer: got.word,
		State: store.EventPending,
	}
	outcome := Retried
	wait := max(d.retryDelay(e.Attempt), got.retryAfter)
	switch {
	case got.ok:
		end.State, outcome = store.EventDelivered, Delivered
	case d.base.Err() != nil:
		// This process stops. end.After stays 0, so that another process tries the event again at
		// once.
	case got.gone || age+wait > retryFor:
		end.State, outcome = store.EventGivenUp, GivenUp
	default:
		end.After = wait
	}
	applied, err := d.DB.EndAppEventAttempt(context.Background(), end)
	d.logAndCount(e, end, outcome, age, applied, err)
}

func (d *Deliverer) logAndCount(e store.AppEvent, end store.AppEventOutcome, outcome string, age time.Duration, applied bool,
	err error,
) {
	about := []any{"event", e.ID, "app", e.App, "type", e.Type, "attempt", e.Attempt, "answer", end.Answer}
	switch {
	case err != nil:
		d.Logger.Warn("could not store webhook result: the event is delivered again",
			append(about, "error", err, logs.SeeEvents)...)
		return
	case !applied:
		d.Logger.Warn("late webhook result discarded: another replica has the lease of the event",
			append(about, logs.SeeEvents)...)
		return
	case outcome == GivenUp:
		d.Logger.Error("webhook event given up", append(about, "age_seconds", roundedSeconds(age), logs.SeeEvents)...)
	case outcome == Retried:
		d.Logger.Info("webhook event not delivered; retrying", append(about, "wait_seconds", roundedSeconds(end.After))...)
	}
	d.Observer.Attempted(e.App, outcome)
}

// retryDelay returns the wait after the nth attempt. The first wait is 5 s, and each further wait
// is four times as long, up to 4 h. Each wait is changed at random by up to a quarter, so that
// events that failed together are not retried together.
func (d *Deliverer) retryDelay(n int) time.Duration {
	wait := 4 * time.Hour
	if n < 8 {
		wait = min(5*time.Second<<(2*max(n-1, 0)), wait)
	}
	return wait*3/4 + d.Random(wait/2)
}

// sweepEvents deletes events that ended longer than keepEventsFor ago, and gives up pending events
// of that age.
func (d *Deliverer) sweepEvents(ctx context.Context) {
	defer panics.Recover(panics.Other)
	for more := true; more && ctx.Err() == nil; {
		forgotten, givenUp, err := d.DB.ForgetAppEvents(ctx, keepEventsFor, sweepLimit)
		if err != nil {
			d.Logger.Info("could not delete old webhook events", "error", err)
			return
		}
		if givenUp > 0 {
			d.Logger.Error("webhook events given up: undelivered for a week", "count", givenUp, logs.SeeEvents)
		}
		for range givenUp {
			d.Observer.Attempted("", GivenUp)
		}
		more = max(forgotten, givenUp) == sweepLimit
	}
}
