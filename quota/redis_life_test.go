package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// onServer is a world on the server's own clock and keys.
func onServer(t *testing.T, limiter *Redis, client redis.UniversalClient) *world {
	return &world{t: t, Limiter: limiter, now: client.Time(t.Context()).Val()}
}

// marked is a bucket that counts one event and is complete.
func (w *world) marked() {
	w.t.Helper()
	w.admits(true, perHour)
	w.restore(w.lacking("created by a take", "login", perHour), time.Hour)
	w.complete("restored", "login", perHour)
}

// A restart may have lost the newest writes, though the key is there again.
func TestQuota11AMarkEndsWithARestart(t *testing.T) {
	server := parts.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := newClient(t, server.URL())
	w := onServer(t, NewRedis(client, "q:"), client)
	w.marked()
	server.Stop()
	must(t, server.Start())
	await(t, "the server", func() bool { return client.Ping(t.Context()).Err() == nil })
	same(t, "used", w.peek(perHour).Rules[0].Used, 1)
	w.lacking("after a restart", "login", perHour)
}

// A replica has the marks as well; once it is promoted they hold no more, and who looked before does not mark it.
func TestQuota11AMarkEndsWithAFailover(t *testing.T) {
	primary := parts.Redis(t, "--repl-diskless-sync-delay", "0")
	replica := parts.Redis(t, "--replicaof", hostPort(t, primary.Addr()))
	first, second := newClient(t, primary.URL()), newClient(t, replica.URL())
	await(t, "the replica to be one", func() bool {
		return strings.Contains(second.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	w := onServer(t, NewRedis(first, "q:"), first)
	w.marked()
	before := w.lacking("of another source", "gift", perHour)
	await(t, "the replica to have it", func() bool {
		return second.ZCard(t.Context(), w.Limiter.(*Redis).Key(ann())).Val() == 2
	})
	must(t, second.SlaveOf(t.Context(), "NO", "ONE").Err())
	w.Limiter = NewRedis(second, "q:")
	same(t, "used", w.peek(perHour).Rules[0].Used, 1)
	w.lacking("after a failover", "login", perHour)
	w.restore(before, time.Hour)
	w.lacking("restored by a caller who looked before the failover", "gift", perHour)
	w.restore(w.lacking("after a failover", "login", perHour), time.Hour)
	w.complete("restored", "login", perHour)
}

// A user who may not ask for the replication ID has marks all the same: they end with the key.
func TestQuota11WithoutTheReplicationID(t *testing.T) {
	server := parts.Redis(t)
	admin := newClient(t, server.URL())
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all", "-info").Err())
	client := newClient(t, strings.Replace(server.URL(), "redis://", "redis://plain:secret@", 1))
	w := onServer(t, NewRedis(client, "q:"), admin)
	w.marked()
	must(t, admin.FlushAll(t.Context()).Err())
	w.lacking("flushed", "login", perHour)
}

// A mark takes no room of its own beside events, and little alone.
func TestQuota12AMarkIsSmall(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	limiter.prefix = "quota:"
	w.restore(w.lacking("never seen", "login", perHour), time.Hour)
	size := limiter.client.MemoryUsage(t.Context(), limiter.Key(ann())).Val()
	if size == 0 || size > 160 {
		t.Errorf("a marked bucket takes %d bytes", size)
	}
	ttl := limiter.client.PExpireTime(t.Context(), limiter.Key(ann())).Val()
	if till := time.Duration(w.now.Add(time.Hour + time.Minute).UnixNano()); ttl <= 0 || ttl > till {
		t.Errorf("it goes at %v, later than a minute after its window, %v", ttl, till)
	}
}

// A life is never 0, which says that a bucket is complete.
func TestQuota11NoLifeIsZero(t *testing.T) {
	client := newClient(t, parts.Redis(t).URL()+patiently)
	life := redis.NewScript(commonScript + "return life(tonumber(ARGV[1]))")
	first, err := life.Run(t.Context(), client, nil, 0).Int64()
	must(t, err)
	const lives = 1<<28 - 1
	for log, want := range map[int64]int64{lives - first: lives, lives - first + 1: 1} {
		got, err := life.Run(t.Context(), client, nil, log).Int64()
		must(t, err)
		same(t, "life", got, want)
	}
}
