package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A longer window sees what the limiter has forgotten: in process after a rebuild, in Redis through the log, at the first look.
func TestARaisedWindowSeesHistory(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *stack{"embedded": embedded, "on real parts": onRealParts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t).policy("    - {name: short, scope: recipient, limit: 1, window: 1s}\n").watching().start(1)
			for range 2 {
				if a := s.ask(0, ana); a.status != http.StatusAccepted {
					t.Fatalf("%d %s", a.status, a.raw)
				}
				after(1100 * time.Millisecond)
			}
			s.rules(twoAnHour)
			s.hangup(0, "applied")
			a := s.do(0, http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, ana))
			if a.Quota.Allowed || a.Quota.RetryAfter < 3500 {
				t.Errorf("before any request: %s", a.raw)
			}
			for range 2 {
				if a := s.ask(0, ana); a.status != http.StatusTooManyRequests || a.BlockedBy != "hourly" || a.RetryAfter < 3500 {
					t.Errorf("%d %s", a.status, a.raw)
				}
			}
		})
	}
}

// Rules that are taken out leave nothing behind for ever: every key has an end.
func TestRemovedRulesLeaveNoKeysForEver(t *testing.T) {
	t.Parallel()
	const many = "    - {name: day, scope: recipient, limit: 10, window: 24h}\n    - {name: net, scope: ip, limit: 100, window: 1h}\n" +
		"    - {name: wide, scope: network, limit: 100, per: week}\n    - {name: app, scope: app, limit: 100, window: 744h}\n" +
		"    - {name: what, scope: purpose, limit: 100, per: month}\n    - {name: all, scope: global, limit: 100, per: hour}\n"
	s := onRealParts(t).policy(many).watching().start(1)
	send := func() {
		t.Helper()
		if a := s.askFrom(0, "192.0.2.7", ana); a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	send()
	before := s.ends()
	if len(before) != 6 {
		t.Errorf("%d keys", len(before))
	}
	s.rules("    - {name: minute, scope: recipient, limit: 5, window: 60s}\n")
	s.hangup(0, "applied")
	send()
	s.rules("    - {name: other, scope: recipient, limit: 9, window: 2h}\n")
	s.hangup(0, "applied")
	send()
	for key, left := range s.ends() {
		if left <= 0 || left > 32*24*time.Hour {
			t.Errorf("a key stays for %v", left)
		}
		if was, ok := before[key]; ok && left > was {
			t.Errorf("a key stays for %v, with its rule it was %v", left, was)
		}
	}
}

// ends tells of each key in Redis how long it stays.
func (s *stack) ends() map[string]time.Duration {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer c.Close()
	keys, err := c.Keys(s.Context(), "*").Result()
	must(s.T, err)
	ends := map[string]time.Duration{}
	for _, k := range keys {
		ends[k] = c.PTTL(s.Context(), k).Val()
	}
	return ends
}

// Two replicas change between three and seven all the time, at times apart, while everybody asks at once.
func TestRequestsDuringReloads(t *testing.T) {
	t.Parallel()
	limit := func(n int) string {
		return fmt.Sprintf("policies:\n  default:\n    - {name: seven, scope: recipient, limit: %d, window: 300s}\n", n)
	}
	s := onRealParts(t).policy(sevenAtMost).watching().start(2)
	ctx, stop := context.WithCancel(t.Context())
	var changes sync.WaitGroup
	for i := range s.replicas {
		changes.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				s.write(limit([]int{3, 7}[n%2]))
				s.replicas[i].hup <- syscall.SIGHUP
			}
		})
	}
	n := s.burst(300, ana)
	stop()
	changes.Wait()
	for i := range s.replicas {
		s.write(limit(7))
		s.replicas[i].hup <- syscall.SIGHUP
		s.await("seven", func() bool {
			a := s.ask(i, fmt.Sprintf("look%d@example.com", i))
			return len(a.Quota.Rules) == 1 && a.Quota.Rules[0].Limit == 7
		})
	}
	n += s.burst(50, ana)
	if n != 7 {
		t.Errorf("%d let in", n)
	}
	s.awaitMail(ana, 7)
	if s.reloads(0, "applied") == "0" {
		t.Error("nothing was changed meanwhile")
	}
}
