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
// The schemes rediss, rediss+sentinel and rediss+cluster use TLS. The scheme rediss+sentinel uses
// TLS both to Sentinel and to Redis. The hosts of a Cluster URL are some of the Cluster's nodes.
//
// The client connects when it is first used, and only to primaries. For a single server, the query
// may have the parameters of redis.ParseURL. For a Cluster, it may have the parameters of
// redis.ParseClusterURL. For Sentinel, it may have the parameters of redis.ParseFailoverURL, and
// also sentinel_username and sentinel_password. Parameters that read from replicas are not allowed.
// No parameter extends the Budget of a call. With TLS, ca=/path.pem names the trusted certificate
// authorities, which replace those of the system. Error: the URL is invalid; the message never
// shows the URL.
func OpenRedis(rawURL string) (redis.UniversalClient, error) { return redisurl.Open(rawURL) }

// Redis is the limiter that all replicas share. Each call runs one script on Redis 7.0 or later.
// The script is atomic and uses the server's clock. On Cluster, a call runs one script for each
// bucket. Every failure of Redis wraps ErrUnavailable. Safe for concurrent use.
type Redis struct {
	// Budget bounds a call with its retries, even if the client's own timeouts are longer. Set it
	// before the first call.
	Budget time.Duration // 2 s by default
	// OnPanic is called with the value of a panic in a goroutine of the limiter, before the stack
	// unwinds. All calls that this goroutine was handling return an error. If OnPanic is nil, the
	// panic ends the process. Set OnPanic before the first call.
	OnPanic func(value any)

	client     redis.UniversalClient
	prefix     string
	cluster    *redis.ClusterClient // the client, if it is a client of a Cluster; otherwise nil
	pipe       *callBatcher         // nil on Cluster
	health     nodeHealth           // of the nodes of a Cluster
	serverTime atomic.Int64         // last instant of the server's clock in an answer, µs since 1970

	take, refund, record, reset, probe *redis.Script
}

// NewRedis makes a limiter whose keys start with prefix. Every key has the prefix, so keep it
// short. Get the client from [OpenRedis]. If you make the client yourself, set
// ContextTimeoutEnabled in its options, and let the client send nothing to replicas. The caller
// closes the client.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return newRedis(client, prefix, clockScript)
}

// newRedis gets the Lua source of the clock as a parameter, so that tests can set the time. The
// scripts of production accept no time from a caller.
func newRedis(client redis.UniversalClient, prefix, clock string) *Redis {
	// With this first line, Redis rejects the whole script if the server cannot write. A server
	// cannot write if it is a replica, if its memory is full, or if its disk fails. Without the
	// line, a replica with old data could answer a Peek, or refuse a Take.
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

// errPanic is the error of calls that a panic of another goroutine ended.
var errPanic = fmt.Errorf("%w: a panic ended the call", ErrUnavailable)

// recoverTo recovers from a panic in a goroutine of the limiter. It calls OnPanic, and then the
// function fail. The caller must call recoverTo directly in a defer statement.
func (r *Redis) recoverTo(fail func()) {
	if r.OnPanic == nil {
		return
	}
	if value := recover(); value != nil {
		r.OnPanic(value)
		fail()
	}
}

// key returns the Redis key of the bucket. The key has the prefix and a hash of fixed length. The
// hash does not reveal the name of the bucket. The braces make the hash the hash tag of the key.
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

// Take counts the event in all buckets or in none; see [Limiter].
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

// withBudget adds the budget as a timeout to ctx, unless ctx ends earlier.
func (r *Redis) withBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= r.Budget {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.Budget)
}

// Peek returns the states of the rules and counts nothing; see [Limiter]. It runs take.lua in the
// mode "look", without an ID.
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

// Refund removes the event. In every bucket, even one that did not count the ID, it leaves a
// tombstone: a mark by which a late Take of the ID is refused for 60 s. See [Limiter].
func (r *Redis) Refund(ctx context.Context, id string, buckets ...string) error {
	if err := errors.Join(checkID(id), checkBuckets(buckets)); err != nil {
		return err
	}
	return r.runOnBuckets(ctx, r.refund, buckets, id, tombstoneLife.Microseconds())
}

// Reset deletes the events of the buckets; see [Limiter].
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

// runTake runs the script take.lua. The parameter mode says whether the script counts the event
// (take) or only reads (look). A refused ID gets a tombstone, a mark that lasts for the duration in
// the parameter tombstone. If that duration is 0, a refused ID gets no tombstone. For calendar
// rules, the arguments of the script contain periods, such as days. If the server's clock is
// outside of these periods, the script fails, and runTake runs it again, up to takeTries times in
// all. Errors: ErrRefunded, ErrUnavailable.
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

// takeTries is how often, at most, runTake runs the script. If the calendar periods of the first
// run do not contain the server's time, the second run gets the periods around that time. The third
// run is for a server whose clock was set between the first two.
const takeTries = 3

// errOutsidePeriods says that the server's clock lies outside all calendar periods that the script
// received.
var errOutsidePeriods = errors.New("quota: the clock is outside of the periods")

// runScript runs a script on the keys of the buckets. It uses the pipe, in which calls share round
// trips. On Cluster each script has its own round trip, because a shared round trip would wait for
// a dead node. The client may repeat a call, so every script may run twice. The caller must give
// ctx a timeout of at most Redis.Budget. Error: ErrUnavailable.
func (r *Redis) runScript(ctx context.Context, script *redis.Script, buckets []string, args []any) (cmd *redis.Cmd,
	err error,
) {
	switch {
	case r.pipe != nil:
		cmd, err = r.pipe.run(ctx, script, r.keys(buckets), args)
	case r.cluster != nil && len(buckets) > 0:
		cmd, err = r.runOnNode(ctx, script, r.keys(buckets), args)
	default: // without a pipe, as in a benchmark; or on Cluster without keys, so any node can run the script
		cmd = script.Run(ctx, r.client, r.keys(buckets), args...)
		err = cmd.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, r.explainClusterNode(err))
	}
	return cmd, nil
}
