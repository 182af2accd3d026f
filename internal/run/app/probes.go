package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/http/console"
	"sendcode/internal/http/server"
	"sendcode/internal/run/metrics"
	"sendcode/internal/store"
	"sendcode/quota"
)

// registerHealthChecks adds a check of each part to /readyz, and gauges of the limiter, the
// database, its clock, bursts and low conversion.
func (a *App) registerHealthChecks() {
	var beats heartbeats
	var limiterUp func(context.Context) error
	limiter := func(context.Context) *server.HealthReason { return nil }
	if a.redis != nil {
		redis := metrics.BackgroundCache[struct{}]{Ask: a.redisPinger(), Every: time.Second}
		limiterUp = func(ctx context.Context) error { return cmp.Or(redis.Get(ctx).Err, a.core.Gates.WhyAway()) }
		beats = redisHeartbeats{a.redisClient}
		limiter = func(ctx context.Context) *server.HealthReason { return redisReason(limiterUp(ctx)) }
	}
	a.databaseProbe = newDatabaseProbe(a.db.Ping, a.db.LastSendCommit, beats, a.logger)
	a.metrics.RegisterLimiter(limiterUp)
	a.metrics.RegisterDatabaseWritable(func(ctx context.Context) error {
		if r := a.databaseProbe.whyUnwritable(ctx); r != nil {
			return r
		}
		return nil
	})
	checks := []server.HealthCheck{
		a.databaseProbe.whyUnwritable, a.databaseProbe.whySlow, a.keyCheck.whyIncomplete, limiter,
		a.mailServersCheck(), a.slowCheck(recipient.Email, server.HealthReason{Part: "mail", Word: "mails_slow", Err: fault.Unavailable}),
		a.slowCheck(recipient.SMS, server.HealthReason{Part: "sms", Word: "texts_slow", Err: fault.Unavailable}),
	}
	if a.carriers != nil {
		checks = append(checks, a.carriersCheck(a.carriers))
	}
	if a.clock != nil {
		a.metrics.RegisterClock(a.clock.localAhead)
		checks = append(checks, a.clock.whyOff)
	}
	if until := a.cfg.HoldUntil; a.now().Before(until) {
		text := until.UTC().Format(time.RFC3339)
		a.logger.Warn("sends held: to send earlier, start without --hold-until", "until", text,
			logs.SeeDatabaseAway)
		checks = append(checks, func(context.Context) *server.HealthReason {
			if !a.now().Before(until) {
				return nil
			}
			return &server.HealthReason{Part: "sends", Word: "held", Values: []string{"until", text}, Err: fault.Unavailable}
		})
	}
	a.metrics.RegisterLiftedBursts(a.db.LiftedBursts)
	a.metrics.RegisterLowConversions(a.db.LowConversions)
	checks = append(checks, burstsCheck(&metrics.BackgroundCache[[]store.Burst]{
		Ask: a.db.LiftedBursts, Every: 10 * time.Second,
		Timeout: store.CallTimeout,
	}))
	a.backlog = newBackgroundCache(a.db.Backlog)
	a.health.MarkStarted(checks...)
}

// burstsCheck reports on /readyz the largest burst that LiftedBursts returns.
func burstsCheck(bursts *metrics.BackgroundCache[[]store.Burst]) server.HealthCheck {
	return func(ctx context.Context) *server.HealthReason {
		list := bursts.Get(ctx).Value
		if len(list) == 0 {
			return nil
		}
		b := list[0]
		return &server.HealthReason{
			Part: "sends", Word: "suppressions_held", Err: errBurst,
			Values: []string{"recipients", strconv.Itoa(b.Recipients), "server", b.Server, "words", b.Words},
		}
	}
}

var errBurst = errors.New("a burst of suppressions was lifted")

// These are names of parts in the reasons of /readyz and in the status line of the console.
const (
	databasePartName = "database"
	redisPartName    = "redis"
)

// reasonDatabaseSlow is for a database that can be written, but answers late.
const reasonDatabaseSlow = "database_slow"

// Status returns the state that the console's pages show.
func (a *App) Status(ctx context.Context) console.ServiceStatus {
	s := console.ServiceStatus{Reasons: a.health.RunChecks(ctx)}
	add := func(kind string) {
		slow := func(r server.HealthReason) bool { return r.Part == kind && r.Word == reasonDatabaseSlow }
		broken := func(r server.HealthReason) bool { return r.Part == kind && !slow(r) }
		s.Parts = append(s.Parts, console.ServicePart{
			Kind: kind, Up: !slices.ContainsFunc(s.Reasons, broken),
			Slow: slices.ContainsFunc(s.Reasons, slow),
		})
	}
	add(databasePartName)
	if a.redis != nil {
		add(redisPartName)
	}
	servers := func(kind string, all []delivery.Health) {
		for _, h := range all {
			s.Parts = append(s.Parts, console.ServicePart{Kind: kind, Name: h.Server, Up: h.Up, Since: h.Since, Why: h.Why})
		}
	}
	servers("mail", a.servers.Health())
	if a.carriers != nil {
		servers("sms", a.carriers.Health())
	}
	backlog := a.backlog.Get(ctx)
	s.Counted = backlog.Err == nil
	for _, b := range backlog.Value {
		s.UnderWay.Sends += b.Sends
		s.UnderWay.Age = max(s.UnderWay.Age, b.Age)
	}
	return s
}

// newBackgroundCache returns a cache that reads its value from the database at most once a second.
func newBackgroundCache[T any](ask func(context.Context) (T, error)) *metrics.BackgroundCache[T] {
	return &metrics.BackgroundCache[T]{Ask: ask, Every: time.Second, Timeout: store.CallTimeout}
}

// redisPinger returns a function that pings Redis. It logs when a part of a Redis Cluster stops
// answering, and when all parts answer again. Do not call it concurrently.
func (a *App) redisPinger() func(context.Context) (struct{}, error) {
	partly := false
	return func(ctx context.Context) (none struct{}, err error) {
		err = a.redis.Ping(ctx)
		switch now := errors.Is(err, quota.ErrPartly); {
		case now && !partly:
			a.logger.Warn("a part of the Redis Cluster is away: the database decides for its keys; look at its nodes",
				"error", err,
				logs.SeeRedis)
		case !now && partly && err == nil:
			a.logger.Info("Redis Cluster whole again")
		}
		partly = errors.Is(err, quota.ErrPartly) || partly && err != nil
		return none, err
	}
}

// redisReason returns why the limiter in Redis can't decide, or nil if err is nil.
func redisReason(err error) *server.HealthReason {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, quota.ErrNotPermitted):
		return &server.HealthReason{Part: redisPartName, Word: "redis_no_permission", Err: err}
	case errors.Is(err, quota.ErrClusterNode):
		return &server.HealthReason{Part: redisPartName, Word: "redis_cluster_node", Err: err}
	case errors.Is(err, quota.ErrSentinel):
		return &server.HealthReason{Part: redisPartName, Word: "redis_sentinel", Err: err}
	case errors.Is(err, quota.ErrPartly):
		return &server.HealthReason{Part: redisPartName, Word: "redis_part_away", Err: err}
	}
	return &server.HealthReason{Part: redisPartName, Word: "redis_away", Err: err}
}

func (a *App) mailServersCheck() server.HealthCheck {
	waits := a.waitingMessageCheck(recipient.Email)
	return func(ctx context.Context) *server.HealthReason {
		return cmp.Or(mailServersReason(a.servers.Health(), a.servers.AttemptsAllowed(), func() bool { return waits(ctx) }),
			a.whyRefused(recipient.Email, server.HealthReason{Part: "mail", Word: "mails_refused", Err: fault.Unavailable}))
	}
}

func (a *App) carriersCheck(carriers *sms.Carriers) server.HealthCheck {
	waits := a.waitingMessageCheck(recipient.SMS)
	return func(ctx context.Context) *server.HealthReason {
		suspended, noAttemptAllowed := carriers.HasUnreachableNumbers()
		return cmp.Or(carriersReason(suspended, noAttemptAllowed, func() bool { return waits(ctx) }),
			a.whyRefused(recipient.SMS, server.HealthReason{Part: "sms", Word: "texts_refused", Err: fault.Unavailable}))
	}
}

// slowCheck returns reason for a minute after the service has refused a send of the channel because
// its message would go out too late. SlowRefusals says which refusals of strangers count.
func (a *App) slowCheck(ch recipient.Channel, reason server.HealthReason) server.HealthCheck {
	return func(context.Context) *server.HealthReason {
		if _, _, last := a.core.Codes.SlowRefusals(ch); time.Since(last) >= time.Minute {
			return nil
		}
		return &reason
	}
}

// failureRun counts the failed attempts of a channel in a row. The count begins again when a server
// or a carrier accepts a message. An attempt that the service itself gave up doesn't count. Neither
// does a refusal because of the recipient of a stranger's message: strangers could choose
// recipients that don't exist.
type failureRun struct {
	mu   sync.Mutex
	n    int
	last time.Time
}

const (
	failuresToReport    = 5
	failuresReportedFor = 10 * time.Minute // after the last failure; without traffic, nothing else would end the state
)

func (r *failureRun) note(fail *delivery.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case fail == nil:
		r.n = 0
	case fail.About != delivery.AboutUs && !fail.Chosen:
		r.n, r.last = r.n+1, time.Now()
	}
}

// whyRefused returns reason if at least failuresToReport attempts of the channel have failed in a
// row, the last one within failuresReportedFor.
func (a *App) whyRefused(ch recipient.Channel, reason server.HealthReason) *server.HealthReason {
	r := a.failureRuns[ch]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n < failuresToReport || time.Since(r.last) >= failuresReportedFor {
		return nil
	}
	return &reason
}

// waitingMessageCheck returns a function that reports whether a message of a channel waits for its
// next attempt. It also returns true if the database's last answer is an error, or older than two
// seconds.
func (a *App) waitingMessageCheck(ch recipient.Channel) func(context.Context) bool {
	waits := newBackgroundCache(func(ctx context.Context) (bool, error) { return a.db.AnySendWaits(ctx, ch) })
	return func(ctx context.Context) bool {
		last := waits.Get(ctx) // if the database is slow, this is the previous answer
		return last.Err != nil || last.Value || time.Since(last.AskedAt) > 2*time.Second
	}
}

// mailServersReason returns a reason if all mail servers are suspended, and either a mail waits or
// no server would try a mail now. While no mail waits, a suspended server that would try the next
// mail counts as working, because only a mail can show that it works again.
//
// attemptsAllowed is how many mails the servers would try now. waits reports whether a mail waits,
// and is called only if its answer matters.
func mailServersReason(all []delivery.Health, attemptsAllowed int, waits func() bool) *server.HealthReason {
	if slices.ContainsFunc(all, func(h delivery.Health) bool { return h.Up }) || attemptsAllowed > 0 && !waits() {
		return nil
	}
	return &server.HealthReason{Part: "mail", Word: "mail_servers_suspended", Err: fault.Unavailable}
}

// carriersReason returns a reason if all carriers of some numbers are suspended, and either a text
// message waits or no carrier would try one now; see mailServersReason.
func carriersReason(suspended, noAttemptAllowed bool, waits func() bool) *server.HealthReason {
	if !suspended || !noAttemptAllowed && !waits() {
		return nil
	}
	return &server.HealthReason{Part: "sms", Word: "carriers_suspended", Err: fault.Unavailable}
}
