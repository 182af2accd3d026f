package app

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/recent"
	"sendcode/internal/runbook"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// databaseProbe finds out whether the database can be written, for /readyz and the metrics. If it
// could be written so far, and was pinged in the last ten seconds, a send that was committed in the
// last two is proof enough; else it is pinged, at most once a second. It counts as away after three
// pings in a row without an answer; an error that it returns counts at once. While it is away,
// /readyz still answers 200, unless another replica's writes succeed: else no replica could do
// better, and some requests need no database. Safe for concurrent use.
type databaseProbe struct {
	latest recent.Value[struct{}] // calls check
	ping   func(context.Context) error
	commit func() *sqldb.Commit // the last one; nil: none proves anything
	beats  heartbeats           // nil: no replica is seen
	logger *slog.Logger

	mu     sync.Mutex
	pinged time.Time      // when the last ping began
	misses int            // pings in a row without an answer
	wrote  time.Time      // when a write last succeeded
	slow   bool           // it took slowAfter or longer; until one takes less than half of that
	reason *server.Reason // why it can't be written; nil: it can
	beaten time.Time      // wrote, as of the last heartbeat
	seen   string         // the last heartbeat that was read since the database is away; "": none
	others time.Time      // when another replica's heartbeat was last found to have changed
}

const (
	provenFor      = 2 * time.Second
	pingAnyway     = 10 * time.Second // a commit says nothing of the schema
	slowAfter      = recent.Wait
	missesTillAway = 3
	beatEvery      = time.Second
	beatFor        = 5 * time.Second // how long a heartbeat says that its replica can write
)

func newDatabaseProbe(ping func(context.Context) error, commit func() *sqldb.Commit, beats heartbeats,
	logger *slog.Logger) *databaseProbe {
	p := &databaseProbe{ping: ping, commit: commit, beats: beats, logger: logger}
	p.latest.Ask, p.latest.Every = p.check, time.Second
	return p
}

// whyUnwritable returns nil if the database can be written, as far as is known after recent.Wait,
// else why it can't.
func (p *databaseProbe) whyUnwritable(ctx context.Context) *server.Reason {
	p.latest.Get(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == nil {
		return nil
	}
	r := *p.reason
	if time.Since(p.others) < beatFor {
		r.Unready, r.Also = true, "other_replica"
	}
	return &r
}

// check asks once whether the database can be written. What it finds is in the probe's fields.
func (p *databaseProbe) check(ctx context.Context) (none struct{}, err error) {
	p.mu.Lock()
	well := p.reason == nil && time.Since(p.pinged) < pingAnyway
	p.mu.Unlock()
	if c := p.commit(); well && c != nil && time.Since(c.At) < provenFor {
		p.note(nil, c.Took)
	} else {
		ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
		defer cancel()
		began := time.Now()
		err := p.ping(ctx)
		p.mu.Lock()
		p.pinged = began
		p.mu.Unlock()
		p.note(unwritableReason(err), time.Since(began))
	}
	return none, nil
}

// note keeps the result of a write.
func (p *databaseProbe) note(reason *server.Reason, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case reason == nil && !p.slow && took >= slowAfter:
		p.slow = true
		p.logger.Warn("database slow: look at its load and its network", "took_ms", took.Milliseconds(),
			runbook.DatabaseSlow.See())
	case reason == nil && p.slow && took < slowAfter/2:
		p.slow = false
		p.logger.Info("database fast again")
	}
	if reason == nil || reason.Word != databaseAway {
		p.misses = 0
	} else if p.misses++; p.misses < missesTillAway {
		return
	}
	switch {
	case reason != nil && (p.reason == nil || p.reason.Word != reason.Word):
		p.logger.Error("database away: nothing is sent", "error", reason, runbook.DatabaseAway.See())
	case reason == nil && p.reason != nil:
		p.logger.Info("database back")
	}
	if p.reason = reason; reason == nil {
		p.wrote = time.Now()
	}
}

// whySlow returns a reason if the database can be written, but late.
func (p *databaseProbe) whySlow(context.Context) *server.Reason {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != nil || !p.slow {
		return nil
	}
	return &server.Reason{Part: databasePart, Word: databaseSlow, Err: errors.New("slow")}
}

// run beats, and looks for others' heartbeats, until ctx ends.
func (p *databaseProbe) run(ctx context.Context) {
	ticks := time.NewTicker(beatEvery)
	defer ticks.Stop()
	for p.beats != nil {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			p.latest.Get(ctx)
			p.beat(ctx)
		}
	}
}

// beat tells other replicas of a write since the last heartbeat. While the database is away, it
// looks whether a heartbeat of another replica is there that was not there before, so no clocks are
// compared. Without an answer of Redis nothing is known of others.
func (p *databaseProbe) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	p.mu.Lock()
	away, wrote, beaten := p.reason != nil, p.wrote, p.beaten
	p.mu.Unlock()
	if !away {
		if wrote.After(beaten) && p.beats.Write(ctx) == nil {
			beaten = wrote
		}
		p.mu.Lock()
		p.beaten, p.seen, p.others = beaten, "", time.Time{}
		p.mu.Unlock()
		return
	}
	seen, err := p.beats.Read(ctx)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen != "" && seen != p.seen && seen != noBeat {
		if p.others.IsZero() {
			p.logger.Error(
				"database writable by another replica alone: /readyz is 503 until it can; compare their networks and settings", runbook.DatabaseAway.See())
		}
		p.others = time.Now()
	}
	p.seen = seen
}

// heartbeats tell replicas that the writes of another succeed.
type heartbeats interface {
	Write(context.Context) error
	// Read returns the last heartbeat, different from all earlier ones; noBeat if it is over, or
	// there was none.
	Read(context.Context) (string, error)
}

// redisHeartbeats keeps the last heartbeat of all replicas in one field of Redis.
type redisHeartbeats struct{ client redis.UniversalClient }

const (
	beatKey   = RedisPrefix + "{written}"
	beatField = "by"
	noBeat    = "none"
)

// beatScript runs only commands that the limiter's scripts run, so it needs no rights of its own.
var beatScript = redis.NewScript(`local now = redis.call('TIME')
redis.call('HSET', KEYS[1], '` + beatField + `', ARGV[1])
return redis.call('PEXPIREAT', KEYS[1], now[1] * 1000 + ARGV[2])`)

// Write implements heartbeats.
func (h redisHeartbeats) Write(ctx context.Context) error {
	return beatScript.Run(ctx, h.client, []string{beatKey}, rand.Text(), beatFor.Milliseconds()).Err()
}

// Read implements heartbeats.
func (h redisHeartbeats) Read(ctx context.Context) (string, error) {
	values, err := h.client.HMGet(ctx, beatKey, beatField).Result()
	if err != nil {
		return "", err
	}
	if beat, ok := values[0].(string); ok {
		return beat, nil
	}
	return noBeat, nil
}

const databaseAway = "database_away"

// unwritableReason returns a *server.Reason that tells operators why the database can't be written;
// nil if err is nil.
func unwritableReason(err error) *server.Reason {
	reason := server.Reason{Part: databasePart, Word: databaseAway, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNoSpace):
		reason.Word = "database_full"
	case errors.Is(err, store.ErrReadOnly):
		reason.Word = "database_read_only"
	case errors.Is(err, store.ErrSchema):
		reason.Word, reason.Unready = "database_schema", true
	case errors.Is(err, store.ErrNoPartition):
		reason.Word = "database_no_partition"
	}
	return &reason
}
