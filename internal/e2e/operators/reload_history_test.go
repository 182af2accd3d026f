package operators

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// A longer window sees what the limiter has forgotten: in process after a rebuild, in Redis through the log, at the first look.
func TestARaisedWindowSeesHistory(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *apptest.Stack{"embedded": apptest.Embedded, "on real parts": apptest.OnRealParts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t).Policy("    - {name: short, scope: recipient, limit: 1, window: 1s}\n").Watching().Start(1)
			for range 2 {
				if a := s.Ask(0, apptest.Ana); a.StatusCode != http.StatusAccepted {
					t.Fatalf("%d %s", a.StatusCode, a.Raw)
				}
				apptest.After(1100 * time.Millisecond)
			}
			s.Rules(apptest.TwoAnHour)
			s.Hangup(0, "applied")
			a := s.Do(0, http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, apptest.Ana))
			if a.Quota.Allowed || a.Quota.RetryAfter < 3500 {
				t.Errorf("before any request: %s", a.Raw)
			}
			for range 2 {
				if a := s.Ask(0, apptest.Ana); a.StatusCode != http.StatusTooManyRequests || a.BlockedBy != "hourly" || a.RetryAfter < 3500 {
					t.Errorf("%d %s", a.StatusCode, a.Raw)
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
	s := apptest.OnRealParts(t).Policy(many).Watching().Start(1)
	send := func() {
		t.Helper()
		if a := s.AskFrom(0, "192.0.2.7", apptest.Ana); a.StatusCode != http.StatusAccepted {
			t.Fatalf("%d %s", a.StatusCode, a.Raw)
		}
	}
	send()
	before := s.Ends()
	if len(before) != 6 {
		t.Errorf("%d keys", len(before))
	}
	s.Rules("    - {name: minute, scope: recipient, limit: 5, window: 60s}\n")
	s.Hangup(0, "applied")
	send()
	s.Rules("    - {name: other, scope: recipient, limit: 9, window: 2h}\n")
	s.Hangup(0, "applied")
	send()
	for key, left := range s.Ends() {
		if left <= 0 || left > 32*24*time.Hour {
			t.Errorf("a key stays for %v", left)
		}
		if was, ok := before[key]; ok && left > was {
			t.Errorf("a key stays for %v, with its rule it was %v", left, was)
		}
	}
}

// Two replicas change between three and seven all the time, at times apart, while everybody asks at once.
func TestRequestsDuringReloads(t *testing.T) {
	t.Parallel()
	limit := func(n int) string {
		return fmt.Sprintf("policies:\n  default:\n    - {name: seven, scope: recipient, limit: %d, window: 300s}\n", n)
	}
	s := apptest.OnRealParts(t).Policy(apptest.SevenAtMost).Watching().Start(2)
	ctx, stop := context.WithCancel(t.Context())
	var changes sync.WaitGroup
	for i := range s.Replicas {
		changes.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				s.Write(limit([]int{3, 7}[n%2]))
				s.Replicas[i].Hangup <- syscall.SIGHUP
			}
		})
	}
	n := s.Burst(300, apptest.Ana)
	stop()
	changes.Wait()
	for i := range s.Replicas {
		s.Write(limit(7))
		s.Replicas[i].Hangup <- syscall.SIGHUP
		s.Await("seven", func() bool {
			a := s.Ask(i, fmt.Sprintf("look%d@example.com", i))
			return len(a.Quota.Rules) == 1 && a.Quota.Rules[0].Limit == 7
		})
	}
	n += s.Burst(50, apptest.Ana)
	if n != 7 {
		t.Errorf("%d let in", n)
	}
	s.AwaitMail(apptest.Ana, 7)
	if s.Reloads(0, "applied") == "0" {
		t.Error("nothing was changed meanwhile")
	}
}
