package quota

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/quota/internal/redisurl"
)

// OpenRedis makes a client from a URL of one of these forms:
//
//	redis://user:password@host:6379/0
//	redis+sentinel://user:password@host1,host2:26379/master/0
//	redis+cluster://user:password@host1,host2:6379
//
// With rediss instead of redis it uses TLS, to the Sentinels too. The hosts of a Cluster are some
// of its nodes. The client connects on first use, and only to primaries.
//
// The query may have the parameters of redis.ParseURL, redis.ParseClusterURL or
// redis.ParseFailoverURL, except those that read from replicas. For Sentinel it may also have
// sentinel_username and sentinel_password. With TLS, ca=/path.pem replaces the system's certificate
// authorities. No parameter extends the Budget of a call. OpenRedis fails if the URL is invalid;
// the error never shows the URL.
func OpenRedis(rawURL string) (redis.UniversalClient, error) { return redisurl.Open(rawURL) }

// Redis is the limiter that all replicas share. It needs Redis 7.0 or later. A Take is one atomic
// script on the server's clock; on a Cluster, each bucket is decided by itself. Every failure of
// Redis wraps ErrUnavailable. Safe for concurrent use.
type Redis struct {
	// Budget bounds a call with its retries, whatever the client's own timeouts. Set it before the
	// first call.
	Budget time.Duration // 2 s by default
	// OnPanic is called with the value of a panic in a goroutine of the limiter, before the stack
	// unwinds; the calls in that goroutine then return an error. Without OnPanic, the panic ends
	// the process. Set it before the first call.
	OnPanic func(value any)

	client     redis.UniversalClient
	prefix     string
	cluster    *redis.ClusterClient // client, if it is for a Cluster
	pipe       *callBatcher         // nil on Cluster
	health     nodeHealth           // of a Cluster's nodes
	serverTime atomic.Int64         // last seen in an answer, µs since 1970

	take, refund, record, reset, probe *redis.Script
}

// NewRedis makes a limiter on a client from [OpenRedis], which the caller closes. Every key starts
// with prefix, so keep it short. A client of your own needs ContextTimeoutEnabled in its options,
// and must send nothing to replicas.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return newRedis(client, prefix, clockScript)
}

// newRedis takes the clock's Lua source so that tests can set the time. The scripts of production
// accept no time from a caller.
func newRedis(client redis.UniversalClient, prefix, clock string) *Redis {
	// With this first line, Redis rejects the script where it can't write: on a replica, with a
	// full memory or a failing disk. Otherwise a replica with old data could answer a Peek or
	// refuse a Take.
	//
	// https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags
	const head = "#!lua\n"
	script := func(body string) *redis.Script { return redis.NewScript(head + clock + commonScript + body) }
	cluster, _ := client.(*redis.ClusterClient)
	r := &Redis{
		Budget: redisurl.CallBudget, client: client, cluster: cluster, prefix: prefix,
		take: script(takeScript), refund: script(refundScript), record: script(recordScript),
		reset: script(resetScript), probe: redis.NewScript(head + clock + probeScript),
	}
	if cluster == nil {
		r.pipe = &callBatcher{limiter: r}
	}
	return r
}

var errPanic = fmt.Errorf("%w: a panic ended the call", ErrUnavailable)

// recoverTo calls OnPanic and then fail if the goroutine panicked. Call it directly in a defer
// statement.
func (r *Redis) recoverTo(fail func()) {
	if r.OnPanic == nil {
		return
	}
	if value := recover(); value != nil {
		r.OnPanic(value)
		fail()
	}
}

// key hashes the bucket's name, so as not to reveal it. The braces make the hash the key's hash
// tag.
//
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func (r *Redis) key(bucket string) string {
	const size = 15    // bytes: 20 characters, long enough to exclude collisions
	var room [128]byte // on the stack; most names and keys fit
	sum := sha256.Sum256(append(room[:0], bucket...))
	key := append(append(room[:0], r.prefix...), '{')
	return string(append(base64.RawURLEncoding.AppendEncode(key, sum[:size]), '}'))
}

func (r *Redis) keys(buckets []string) []string {
	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = r.key(b)
	}
	return keys
}

// Take implements [Limiter].
func (r *Redis) Take(ctx context.Context, req Request) (Decision, error) {
	p, err := planTake(req)
	if err != nil {
		return Decision{}, err
	}
	ctx, cancel := r.withBudget(ctx)
	defer cancel()
	if r.cluster != nil && len(p.buckets) > 1 {
		d, err := r.takeEach(ctx, req.ID, p)
		return p.split(d), err
	}
	a, err := r.runTake(ctx, req.ID, modeTake, 0, p)
	return p.split(a.Decision), err
}

func (r *Redis) withBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= r.Budget {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.Budget)
}

// Peek implements [Limiter].
func (r *Redis) Peek(ctx context.Context, req Request) (Decision, error) {
	p, err := planPeek(req)
	if err != nil {
		return Decision{}, err
	}
	clear(p.keeps)
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	ask := func(p requestPlan) (scriptAnswer, error) { return r.runTake(ctx, "", modeLook, 0, p) }
	if r.cluster != nil && len(p.buckets) > 1 {
		parts := p.byBucket()
		answers, err := r.askEach(parts, ask)
		return p.split(p.merge(parts, answers)), err
	}
	a, err := ask(p)
	a.Admitted = false
	return p.split(a.Decision), err
}

// Refund implements [Limiter].
func (r *Redis) Refund(ctx context.Context, id string, buckets ...string) error {
	if err := errors.Join(checkID(id), checkBuckets(buckets)); err != nil {
		return err
	}
	return r.runOnBuckets(ctx, r.refund, buckets, id, tombstoneLife.Microseconds())
}

// Reset implements [Limiter].
func (r *Redis) Reset(ctx context.Context, buckets ...string) error {
	if err := checkBuckets(buckets); err != nil {
		return err
	}
	return r.runOnBuckets(ctx, r.reset, buckets, tombstoneLife.Microseconds())
}

func (r *Redis) runOnBuckets(ctx context.Context, script *redis.Script, buckets []string, args ...any) error {
	if len(buckets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	if r.cluster != nil && len(buckets) > 1 {
		return r.concurrently(len(buckets), func(i int) error {
			_, err := r.runScript(ctx, script, buckets[i:i+1], args)
			return err
		})
	}
	_, err := r.runScript(ctx, script, buckets, args)
	return err
}

// runTake runs take.lua, to take or to look. If tombstone isn't 0, a refused ID gets a tombstone
// that lasts this long. If the server's clock is outside the calendar periods that were sent,
// runTake sends the periods around that clock, up to takeTries times in all. Errors: ErrRefunded,
// ErrUnavailable.
func (r *Redis) runTake(ctx context.Context, id, mode string, tombstone time.Duration, p requestPlan) (scriptAnswer, error) {
	for range takeTries {
		cmd, err := r.runScript(ctx, r.take, p.buckets, p.scriptArgs(id, mode, tombstone, microsToTime(r.serverTime.Load())))
		if err != nil {
			return scriptAnswer{}, err
		}
		a, err := p.parseAnswer(cmd)
		if err == nil || errors.Is(err, errOutsidePeriods) {
			r.serverTime.Store(a.At.UnixMicro())
		}
		if !errors.Is(err, errOutsidePeriods) {
			return a, err
		}
	}
	return scriptAnswer{}, fmt.Errorf("%w: the clock of Redis jumps back and forth", ErrUnavailable)
}

// takeTries allows a second run with the periods around the server's time, and a third in case the
// server's clock was set between the first two runs.
const takeTries = 3

var errOutsidePeriods = errors.New("quota: the clock is outside of the periods")

// runScript runs a script on the buckets' keys. Calls share round trips, except on Cluster, where a
// shared round trip would wait for a dead node. The client may repeat a call, so any script may run
// twice. ctx must end within Budget. Error: ErrUnavailable.
func (r *Redis) runScript(ctx context.Context, script *redis.Script, buckets []string, args []any) (cmd *redis.Cmd,
	err error,
) {
	switch {
	case r.pipe != nil:
		cmd, err = r.pipe.run(ctx, script, r.keys(buckets), args)
	case r.cluster != nil && len(buckets) > 0:
		cmd, err = r.runOnNode(ctx, script, r.keys(buckets), args)
	default: // without a pipe, as in a benchmark; or on Cluster without keys, where any node will do
		cmd = script.Run(ctx, r.client, r.keys(buckets), args...)
		err = cmd.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, r.explainClusterNode(err))
	}
	return cmd, nil
}
