package app

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/http/server"
	"sendcode/internal/run/metrics"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// databaseProbe finds out whether the database can be written, for /readyz and the metrics. It
// pings the database at most once a second. It needs no ping if the last one is newer than
// maxPingAge and a commit succeeded in the last commitProvesFor. The database counts as away, that
// is, not writable, after three failed pings in a row, or after one failure with a known reason,
// such as a full disk.
//
// While the database is away, /readyz answers 503 only if another replica can write, or if the
// database has another schema. Otherwise a load balancer has no better replica, and some requests
// need no database. Safe for concurrent use.
type databaseProbe struct {
	latest metrics.BackgroundCache[struct{}] // calls check
	ping   func(context.Context) error
	commit func() *sqldb.CommitTiming // the last commit; nil: there was none
	beats  heartbeats                 // nil: other replicas can't be seen
	logger *slog.Logger

	mu             sync.Mutex
	pingedAt       time.Time            // when the last ping began
	pingPending    bool                 // whether that ping has no answer yet
	misses         int                  // failed pings in a row without a known reason
	wroteAt        time.Time            // when a write last succeeded
	lateWrites     int                  // how many writes took slowWriteThreshold or more since a write last took less than half of it
	reason         *server.HealthReason // why the database can't be written; nil: it can
	wroteAtOwnBeat time.Time            // the value of wroteAt at the last heartbeat
	lastBeat       string               // the heartbeat last read while the database is away; "": none
	othersBeatAt   time.Time            // when another replica's heartbeat was last found to have changed
}

const (
	commitProvesFor     = 2 * time.Second
	maxPingAge          = 10 * time.Second // a commit does not show that the schema fits; a ping does
	slowWriteThreshold  = metrics.MaxCacheWait
	missedPingsTillAway = 3
	lateWritesTillLog   = 3 // fewer late writes are not logged: other programs' load may be the cause
	heartbeatEvery      = time.Second
	heartbeatLife       = 5 * time.Second // how long a heartbeat proves that its replica can write
)

func newDatabaseProbe(ping func(context.Context) error, commit func() *sqldb.CommitTiming, beats heartbeats,
	logger *slog.Logger,
) *databaseProbe {
	p := &databaseProbe{ping: ping, commit: commit, beats: beats, logger: logger}
	p.latest.Ask, p.latest.Every = p.check, time.Second
	return p
}

// whyUnwritable returns why the database can't be written, or nil. It waits up to
// metrics.MaxCacheWait for the probe, and then returns the last known result.
func (p *databaseProbe) whyUnwritable(ctx context.Context) *server.HealthReason {
	p.latest.Get(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == nil {
		return nil
	}
	r := *p.reason
	if time.Since(p.othersBeatAt) < heartbeatLife {
		r.Unready, r.Also = true, "other_replica"
	}
	return &r
}

func (p *databaseProbe) check(ctx context.Context) (none struct{}, err error) {
	p.mu.Lock()
	well := p.reason == nil && time.Since(p.pingedAt) < maxPingAge
	p.mu.Unlock()
	if c := p.commit(); well && c != nil && time.Since(c.At) < commitProvesFor {
		p.recordWrite(nil, c.Took)
	} else {
		began := time.Now()
		p.mu.Lock()
		p.pingedAt, p.pingPending = began, true
		p.mu.Unlock()
		err := p.ping(ctx)
		p.mu.Lock()
		p.pingPending = false
		p.mu.Unlock()
		p.recordWrite(unwritableReason(err), time.Since(began))
	}
	return none, nil
}

// recordWrite records the result of a commit or a ping, and logs a change.
func (p *databaseProbe) recordWrite(reason *server.HealthReason, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case reason == nil && took >= slowWriteThreshold:
		p.lateWrites++
		if p.lateWrites == lateWritesTillLog {
			p.logger.Warn("database slow: look at its load and its network", "took_ms", took.Milliseconds(),
				logs.SeeDatabaseSlow)
		}
	case reason == nil && took < slowWriteThreshold/2:
		if p.lateWrites >= lateWritesTillLog {
			p.logger.Info("database fast again")
		}
		p.lateWrites = 0
	}
	p.misses++
	if reason == nil || reason.Word != reasonDatabaseAway {
		p.misses = 0
	} else if p.misses < missedPingsTillAway {
		return
	}
	switch {
	case reason != nil && (p.reason == nil || p.reason.Word != reason.Word):
		p.logger.Error("database away: nothing is sent", "error", reason, logs.SeeDatabaseAway)
	case reason == nil && p.reason != nil:
		p.logger.Info("database back")
	}
	p.reason = reason
	if reason == nil {
		p.wroteAt = time.Now()
	}
}

// whySlow returns a reason if the database can be written, but answers late. It also does so if the
// last ping failed or has no answer yet, but too few pings have failed for the database to count as
// not writable.
func (p *databaseProbe) whySlow(context.Context) *server.HealthReason {
	p.mu.Lock()
	defer p.mu.Unlock()
	pingLate := p.pingPending && time.Since(p.pingedAt) >= slowWriteThreshold
	if p.reason != nil || p.lateWrites == 0 && p.misses == 0 && !pingLate {
		return nil
	}
	return &server.HealthReason{Part: databasePartName, Word: reasonDatabaseSlow, Err: errors.New("slow")}
}

func (p *databaseProbe) runHeartbeats(ctx context.Context) {
	ticks := time.NewTicker(heartbeatEvery)
	defer ticks.Stop()
	for p.beats != nil {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			p.latest.Get(ctx)
			p.exchangeHeartbeats(ctx)
		}
	}
}

// exchangeHeartbeats tells other replicas that this one can write to the database, or looks for a
// replica that can. It writes a heartbeat if a write to the database has succeeded since the last
// heartbeat. While this replica can't write, it looks for a new heartbeat of another one. It
// compares only the values of heartbeats, so the replicas' clocks may differ. If Redis doesn't
// answer, nothing changes.
func (p *databaseProbe) exchangeHeartbeats(ctx context.Context) {
	defer panics.Recover(panics.Other)
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()
	p.mu.Lock()
	away, wrote, wroteAtBeat := p.reason != nil, p.wroteAt, p.wroteAtOwnBeat
	p.mu.Unlock()
	if !away {
		if wrote.After(wroteAtBeat) && p.beats.Write(ctx) == nil {
			wroteAtBeat = wrote
		}
		p.mu.Lock()
		p.wroteAtOwnBeat, p.lastBeat, p.othersBeatAt = wroteAtBeat, "", time.Time{}
		p.mu.Unlock()
		return
	}
	beat, err := p.beats.Read(ctx)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastBeat != "" && beat != p.lastBeat && beat != noHeartbeat {
		if p.othersBeatAt.IsZero() {
			p.logger.Error(
				"database writable only by another replica: /readyz answers 503 until this one can write; compare their networks and settings",
				logs.SeeDatabaseAway)
		}
		p.othersBeatAt = time.Now()
	}
	p.lastBeat = beat
}

// heartbeats show whether another replica can write to the database.
type heartbeats interface {
	Write(context.Context) error
	// Read returns the last heartbeat, or noHeartbeat if it has expired or none was written. No two
	// heartbeats have the same value.
	Read(context.Context) (string, error)
}

// redisHeartbeats keeps the last heartbeat of all replicas as the only member of a sorted set, so
// that the Redis user needs no more commands and rights than the limiter does.
type redisHeartbeats struct{ client redis.UniversalClient }

const (
	heartbeatKey = RedisPrefix + "{written-by}"
	noHeartbeat  = "none"
)

var heartbeatScript = redis.NewScript(`local now = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '+inf')
redis.call('ZADD', KEYS[1], 0, ARGV[1])
return redis.call('PEXPIREAT', KEYS[1], now[1] * 1000 + ARGV[2])`)

func (h redisHeartbeats) Write(ctx context.Context) error {
	return heartbeatScript.Run(ctx, h.client, []string{heartbeatKey}, rand.Text(), heartbeatLife.Milliseconds()).Err()
}

func (h redisHeartbeats) Read(ctx context.Context) (string, error) {
	beats, err := h.client.ZRange(ctx, heartbeatKey, 0, 0).Result()
	if err != nil {
		return "", err
	}
	return append(beats, noHeartbeat)[0], nil
}

const reasonDatabaseAway = "database_away"

// unwritableReason explains to operators why the database can't be written; nil if err is nil.
func unwritableReason(err error) *server.HealthReason {
	reason := server.HealthReason{Part: databasePartName, Word: reasonDatabaseAway, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNoSpace):
		reason.Word = "database_full"
	case errors.Is(err, store.ErrReadOnly):
		reason.Word = "database_read_only"
	case errors.Is(err, store.ErrNoPermission):
		reason.Word = "database_no_permission"
	case errors.Is(err, store.ErrStandbyAway):
		reason.Word = "database_standby_away"
	case errors.Is(err, store.ErrSchema):
		reason.Word, reason.Unready = "database_schema", true
	case errors.Is(err, store.ErrNoPartition):
		reason.Word = "database_no_partition"
	}
	return &reason
}
