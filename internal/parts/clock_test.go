package parts

import (
	"testing"
	"time"
)

func TestRedisOnAClockOfItsOwn(t *testing.T) {
	s, clock := RedisWithClock(t)
	client := redisClient(t, s)
	for _, offset := range []time.Duration{0, 5 * time.Second, -5 * time.Second, 1500 * time.Millisecond, -1 * time.Microsecond, 400 * 24 * time.Hour} {
		if err := clock.Set(offset); err != nil {
			t.Fatal(err)
		}
		before := time.Now().Add(offset).Truncate(time.Microsecond)
		told, err := client.Eval(t.Context(), `local t = redis.call('TIME') return t[1] * 1000000 + t[2]`, nil).Int64()
		after := time.Now().Add(offset)
		if err != nil {
			t.Fatal(err)
		}
		if at := time.UnixMicro(told); at.Before(before) || at.After(after) {
			t.Errorf("offset %v: told %v, between %v and %v", offset, at, before, after)
		}
	}
	s.Stop()
	do(t, s.Start)
	if err := s.ping(t.Context()); err != nil {
		t.Error(err)
	}
}
