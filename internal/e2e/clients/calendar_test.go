package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// shanghai has no summer time.
var shanghai = time.FixedZone("Shanghai", 8*3600)

// A month of Shanghai: 2 sends until it ends.
func TestTwoInACalendarMonth(t *testing.T) {
	twoUntil(t, "    - {name: monthly, scope: recipient, limit: 2, per: month, time_zone: Asia/Shanghai}\n", func(y int, m time.Month, _ int) told {
		start, end := time.Date(y, m, 1, 0, 0, 0, 0, shanghai), time.Date(y, m+1, 1, 0, 0, 0, 0, shanghai)
		window := int(end.Sub(start).Seconds())
		return told{end, fmt.Sprintf(`"limit":2,"window":%d,"per":"month","remaining":0`, window), fmt.Sprintf(`"monthly";q=2;w=%d`, window)}
	})
}

// Sends by dates of Shanghai: 2 on today and the two dates before it.
func TestTwoOnThreeDates(t *testing.T) {
	twoUntil(t, "    - {name: dates, scope: recipient, limit: 2, days: 3, time_zone: Asia/Shanghai}\n", func(y int, m time.Month, d int) told {
		end := time.Date(y, m, d+3, 0, 0, 0, 0, shanghai)
		return told{end, `"limit":2,"window":259200,"days":3,"remaining":0`, `"dates";q=2`}
	})
}

// told is what a caller is told who is refused today.
type told struct {
	end    time.Time // to wait until
	rule   string    // in the body
	policy string    // RateLimit-Policy
}

// twoUntil has a policy let in 2 of 50 at once, in whichever of the two gates they are counted, and tell the next one what it must.
func twoUntil(t *testing.T, policy string, today func(y int, m time.Month, d int) told) {
	for name, c := range map[string]struct {
		open func(t *testing.T) *apptest.Stack
		cut  func(s *apptest.Stack)
	}{
		"in process": {apptest.Embedded, func(*apptest.Stack) {}},
		"two replicas, flushed in between, so the log decides": {apptest.OnRealParts, (*apptest.Stack).Flush},
		"two replicas without Redis, so the log alone decides": {
			apptest.OnRealParts, func(s *apptest.Stack) { s.Redis.Stop() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.open(t).Policy(policy).Start(1)
			if n := s.Burst(50, apptest.Ana); n != 2 {
				t.Fatalf("%d let in", n)
			}
			c.cut(s)
			before := time.Now()
			refused := s.Ask(0, apptest.Ana)
			after := time.Now()
			if refused.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("%d %s", refused.StatusCode, refused.Raw)
			}
			want := today(time.Now().In(shanghai).Date())
			most, least := want.end.Sub(before).Seconds()+2, want.end.Sub(after).Seconds()-2
			if wait := float64(refused.RetryAfter); wait < least || wait > most {
				t.Errorf("told to wait %.0f s, the rule ends in %.0f s", wait, most)
			}
			if !strings.Contains(string(refused.Raw), want.rule) {
				t.Errorf("no %s in %s", want.rule, refused.Raw)
			}
			if got := refused.Header.Get("RateLimit-Policy"); got != want.policy {
				t.Errorf("RateLimit-Policy %s, want %s", got, want.policy)
			}
		})
	}
}
