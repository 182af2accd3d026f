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

const budget = redisurl.Budget

// OpenRedis makes a client for
//
//	redis://user:password@host:6379/0, and rediss:// with TLS
//	redis+sentinel://user:password@host1,host2:26379/master/0, and rediss+sentinel:// with TLS to Sentinel and Redis
//	redis+cluster://user:password@host1,host2:6379, and rediss+cluster:// with TLS; the hosts are some of the nodes
//
// It connects only when first used, to primaries alone. The parameters are go-redis's (see redis.ParseURL, and for Cluster
// redis.ParseClusterURL without those that read from replicas), for Sentinel sentinel_username and sentinel_password; of
// these, none can lift the 2 s that a call may take. With TLS, ca=/path.pem names the authorities to trust instead of the
// system's. No error shows the URL.
func OpenRedis(rawURL string) (redis.UniversalClient, error) { return redisurl.Open(rawURL) }

// Redis is the limiter that all replicas share: each call is one script, run by Redis 7.0 or later as one atomic step on
// its own clock. Every failure is ErrUnavailable and admits nothing. Safe for concurrent use.
type Redis struct {
	client  redis.UniversalClient
	prefix  string
	budget  time.Duration
	cluster *redis.ClusterClient // the same client, if it is one
	pipe    *pipe                // nil on Cluster
	seen    atomic.Int64         // the instant that the server answered last, µs since 1970: whereabouts its clock is

	take, refund, record, reset, probe *redis.Script
}

// NewRedis makes a limiter whose keys start with prefix: each byte of it is one more for every recipient. Get the client
// from [OpenRedis], or set ContextTimeoutEnabled and route nothing to replicas; the caller closes it.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return newRedis(client, prefix, clockScript)
}

// newRedis takes the clock as source, so that tests can set it and the scripts of production have no way to be told a time.
func newRedis(client redis.UniversalClient, prefix, clock string) *Redis {
	// With this first line, Redis refuses a script as a whole where it could not write: on a replica, out of memory, with
	// a failing disk. Without it, a refusal by Take and a Peek would come from a replica that is behind.
	// https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags
	const head = "#!lua\n"
	script := func(body string) *redis.Script { return redis.NewScript(head + clock + commonScript + body) }
	cluster, _ := client.(*redis.ClusterClient)
	var shared *pipe
	if cluster == nil {
		shared = &pipe{client: client}
	}
	return &Redis{
		client: client, cluster: cluster, pipe: shared, prefix: prefix, budget: budget,
		take: script(takeScript), refund: script(refundScript), record: script(recordScript),
		reset: script(resetScript), probe: redis.NewScript(head + clock + probeScript),
	}
}

// Key is where the bucket is kept. It is of fixed length and shows nothing of the bucket; the braces give each bucket a
// hash slot of its own. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func (r *Redis) Key(bucket string) string {
	const size = 15    // bytes: 20 characters, with no two buckets alike by accident
	var room [128]byte // most buckets and keys fit
	sum := sha256.Sum256(append(room[:0], bucket...))
	key := append(append(room[:0], r.prefix...), '{')
	return string(append(base64.RawURLEncoding.AppendEncode(key, sum[:size]), '}'))
}

func (r *Redis) keys(buckets []string) []string {
	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = r.Key(b)
	}
	return keys
}

// Take counts the event or spends nothing; see [Limiter].
func (r *Redis) Take(ctx context.Context, req Request) (Decision, error) {
	p, err := planTake(req)
	if err != nil {
		return Decision{}, err
	}
	ctx, cancel := r.within(ctx)
	defer cancel()
	if r.cluster != nil && len(p.buckets) > 1 {
		return r.takeEach(ctx, req.ID, p)
	}
	a, err := r.try(ctx, req.ID, take, 0, p)
	return a.Decision, err
}

// within bounds a call by the budget, unless its caller does so already.
func (r *Redis) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= r.budget {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.budget)
}

// Peek decides without counting; see [Limiter].
func (r *Redis) Peek(ctx context.Context, req Request) (Decision, error) {
	p, err := planPeek(req)
	if err != nil {
		return Decision{}, err
	}
	clear(p.keeps)
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	ask := func(p plan) (answer, error) { return r.try(ctx, "", look, 0, p) }
	if r.cluster != nil && len(p.buckets) > 1 {
		parts := p.split()
		answers, err := r.each(parts, ask)
		return p.merge(parts, answers), err
	}
	a, err := ask(p)
	a.Admitted = false
	return a.Decision, err
}

// Refund removes the event and leaves a mark that it is refunded; see [Limiter].
func (r *Redis) Refund(ctx context.Context, id string, buckets ...string) error {
	if err := errors.Join(checkID(id), checkBuckets(buckets)); err != nil {
		return err
	}
	return r.write(ctx, r.refund, buckets, id, tombstone.Microseconds())
}

// Reset forgets the events of the buckets; see [Limiter].
func (r *Redis) Reset(ctx context.Context, buckets ...string) error {
	if err := checkBuckets(buckets); err != nil {
		return err
	}
	return r.write(ctx, r.reset, buckets)
}

func (r *Redis) write(ctx context.Context, script *redis.Script, buckets []string, args ...any) error {
	if len(buckets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	if r.cluster != nil && len(buckets) > 1 {
		return r.writeEach(ctx, script, buckets, args)
	}
	_, err := r.run(ctx, script, buckets, args)
	return err
}

// try runs take.lua; tombstone is for how long a refused ID stays refunded.
func (r *Redis) try(ctx context.Context, id, mode string, tombstone time.Duration, p plan) (answer, error) {
	for range tries {
		cmd, err := r.run(ctx, r.take, p.buckets, p.args(id, mode, tombstone, instant(r.seen.Load())))
		if err != nil {
			return answer{}, err
		}
		a, err := p.answer(cmd)
		if err == nil || errors.Is(err, errOutside) {
			r.seen.Store(a.At.UnixMicro())
		}
		if !errors.Is(err, errOutside) {
			return a, err
		}
	}
	return answer{}, fmt.Errorf("%w: the clock of Redis does not stay where it is", ErrUnavailable)
}

// tries is how often the script is called for a calendar rule: the second call has the periods around the server's time, and the third
// is needed if its clock was set in between.
const tries = 3

// errOutside says that the server's clock is in none of the periods that the script was given.
var errOutside = errors.New("quota: the clock is outside of the periods")

// run repeats nothing by itself: the client does, and every script may be repeated. ctx ends with the budget.
func (r *Redis) run(ctx context.Context, script *redis.Script, buckets []string, args []any) (*redis.Cmd, error) {
	cmd, err := r.send(ctx, script, r.keys(buckets), args)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return cmd, nil
}

// send shares round trips, but not on Cluster, where one node that is gone would hold up the calls to all.
func (r *Redis) send(ctx context.Context, script *redis.Script, keys []string, args []any) (*redis.Cmd, error) {
	if r.pipe != nil {
		return r.pipe.run(ctx, script, keys, args)
	}
	cmd := script.Run(ctx, r.client, keys, args...)
	return cmd, cmd.Err()
}
