package quota

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// The script decides by its own clock in which period it is, wherever the caller thought that clock to be.
func TestQuota18ThePeriodIsThatOfRedisClock(t *testing.T) {
	w := redisWorld(t)
	r := calendar(1, Hour, nil)
	limiter := w.Limiter.(*Redis)
	hour := parse(t, "2040-03-01T10:00:00Z")
	for _, s := range []struct {
		about, now string
		seen       time.Duration // from the hour
		admitted   bool
		asked      int
	}{
		{"never seen", "2040-03-01T09:59:59.999999Z", -1000 * time.Hour, true, 2},
		{"the same hour", "2040-03-01T09:59:59.999999Z", -1, false, 1},
		{"seen an hour before", "2040-03-01T10:00:00Z", -1, true, 1},
		{"seen an hour behind", "2040-03-01T09:59:59.999999Z", 0, false, 1},
		{"seen three hours before", "2040-03-01T12:00:00Z", -time.Hour, true, 2},
		{"seen two hours behind", "2040-03-01T10:59:59.999999Z", 2 * time.Hour, false, 2},
	} {
		w.set(parse(t, s.now))
		limiter.seen.Store(hour.Add(s.seen).UnixMicro())
		before := evalshas(t, limiter.client)
		d := w.admits(s.admitted, r)
		// Setting the clock is a script as well, but not between these two.
		same(t, s.about+": asked", evalshas(t, limiter.client)-before, s.asked)
		_, end := r.Period(w.now)
		same(t, s.about+": wait", d.RetryAfter(), end.Sub(w.now))
		same(t, s.about+": seen", limiter.seen.Load(), w.now.UnixMicro())
	}
}

// What is outside of the periods spends nothing, in no bucket, and a clock that runs away admits nothing.
func TestQuota18AClockThatRunsAwayAdmitsNothing(t *testing.T) {
	client := newClient(t, parts.Redis(t).URL())
	const clock = "local function clock() return redis.call('INCRBY', 'now', '100000000000') end\n" // 27 hours further each time
	r := newRedis(client, "q:", clock)
	rules := []Rule{calendar(1, Hour, nil), sliding(IP, 1, time.Minute)}
	_, err := r.Take(t.Context(), request("id", rules...))
	same(t, "unavailable", errors.Is(err, ErrUnavailable), true)
	keys, err := client.Keys(t.Context(), "q:*").Result()
	must(t, err)
	same(t, "buckets", len(keys), 0)
	same(t, "tried", evalshas(t, client.(*redis.Client)), tries)
}
