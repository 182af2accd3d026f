package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
	"sendcode/internal/parts/locate"
)

// shared is one cluster for all tests that leave it whole: its nodes need seconds to come together, and take none of them for gone
// because the machine stood still.
var shared = sync.OnceValues(func() (*parts.RedisCluster, error) {
	return parts.StartRedisCluster(context.Background(), "--cluster-node-timeout", "30000")
})

var sharedIsUp bool

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedIsUp {
		c, _ := shared()
		c.Close()
	}
	os.Exit(code)
}

func sharedCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	c, err := shared()
	if missing := new(locate.Missing); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	must(t, err)
	sharedIsUp = true
	return newClient(t, c.URL()+patiently).(*redis.ClusterClient)
}

// clusterWorld runs the scripts of production over clocks that each call brings along: no key is on every node.
func clusterWorld(t *testing.T) *world {
	client := sharedCluster(t)
	w := &world{t: t, Limiter: patient(newRedis(client, "q:", toldClock))}
	client.AddHook(tellClock(func(string) time.Time { return w.now }))
	w.set = func(now time.Time) {
		w.now = now
		onEach(t, client, func(c *redis.Client) error {
			return expire.Run(t.Context(), c, nil, now.UnixMilli()).Err()
		})
	}
	w.flush = func() { onEach(t, client, func(c *redis.Client) error { return c.FlushAll(t.Context()).Err() }) }
	w.set(epoch)
	w.flush()
	return w
}

func onEach(t tester, client *redis.ClusterClient, do func(*redis.Client) error) {
	t.Helper()
	var mu sync.Mutex // one after the other
	must(t, client.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return do(c)
	}))
}

// expire lets keys go as tick does.
var expire = redis.NewScript(`
for _, key in ipairs(redis.call('KEYS', 'q:*')) do
  if redis.call('PEXPIRETIME', key) < tonumber(ARGV[1]) then redis.call('DEL', key) end
end
return 1`)

// toldClock is what the last argument says.
const toldClock = "local told = tonumber(table.remove(ARGV))\nlocal function clock() return told end\n"

// tellClock adds to each script the time of its first key.
type tellClock func(key string) time.Time

func (tellClock) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c tellClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		told := c.tell(ctx, cmd)
		err := next(ctx, told)
		hear(cmd, told)
		return err
	}
}

func (c tellClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		told := make([]redis.Cmder, len(cmds))
		for i := range cmds {
			told[i] = c.tell(ctx, cmds[i])
		}
		err := next(ctx, told)
		for i := range cmds {
			hear(cmds[i], told[i])
		}
		return err
	}
}

func (c tellClock) tell(ctx context.Context, cmd redis.Cmder) redis.Cmder {
	if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
		return cmd
	}
	args, key := cmd.Args(), ""
	if fmt.Sprint(args[2]) != "0" {
		key = fmt.Sprint(args[3])
	}
	return redis.NewCmd(ctx, append(args[:len(args):len(args)], c(key).UnixMicro())...)
}

func hear(cmd, told redis.Cmder) {
	if cmd != told {
		cmd.(*redis.Cmd).SetVal(told.(*redis.Cmd).Val())
		cmd.SetErr(told.Err())
	}
}
