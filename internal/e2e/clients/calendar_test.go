package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// A month of Shanghai: 2 sends, in whichever of the two gates they are counted, until it ends.
func TestTwoInACalendarMonth(t *testing.T) {
	const twoAMonth = "    - {name: monthly, scope: recipient, limit: 2, per: month, time_zone: Asia/Shanghai}\n"
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
			s := c.open(t).Policy(twoAMonth).Start(1)
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
			shanghai := time.FixedZone("Shanghai", 8*3600) // no summer time
			y, m, _ := time.Now().In(shanghai).Date()
			start, end := time.Date(y, m, 1, 0, 0, 0, 0, shanghai), time.Date(y, m+1, 1, 0, 0, 0, 0, shanghai)
			window := int(end.Sub(start).Seconds())
			most, least := end.Sub(before).Seconds()+2, end.Sub(after).Seconds()-2
			if wait := float64(refused.RetryAfter); wait < least || wait > most {
				t.Errorf("told to wait %.0f s, the month ends in %.0f s", wait, most)
			}
			if want := fmt.Sprintf(`"limit":2,"window":%d,"per":"month","remaining":0`, window); !strings.Contains(string(refused.Raw), want) {
				t.Errorf("no %s in %s", want, refused.Raw)
			}
			if got, want := refused.Header.Get("RateLimit-Policy"), fmt.Sprintf(`"monthly";q=2;w=%d`, window); got != want {
				t.Errorf("RateLimit-Policy %s, want %s", got, want)
			}
		})
	}
}

// Sends by dates of Shanghai: 2 on today and the two dates before it, in whichever of the two gates they are counted.
func TestTwoOnThreeDates(t *testing.T) {
	const twoOnThree = "    - {name: dates, scope: recipient, limit: 2, days: 3, time_zone: Asia/Shanghai}\n"
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
			s := c.open(t).Policy(twoOnThree).Start(1)
			if n := s.Burst(50, apptest.Ana); n != 2 {
				t.Fatalf("%d let in", n)
			}
			c.cut(s)
			before := time.Now()
			refused := s.Ask(0, apptest.Ana)
			after := time.Now()
			shanghai := time.FixedZone("Shanghai", 8*3600) // no summer time
			y, m, d := time.Now().In(shanghai).Date()
			end := time.Date(y, m, d+3, 0, 0, 0, 0, shanghai)
			most, least := end.Sub(before).Seconds()+2, end.Sub(after).Seconds()-2
			if wait := float64(refused.RetryAfter); refused.StatusCode != http.StatusTooManyRequests || wait < least || wait > most {
				t.Errorf("%d, told to wait %.0f s, the dates end in %.0f s", refused.StatusCode, wait, most)
			}
			if want := `"limit":2,"window":259200,"days":3,"remaining":0`; !strings.Contains(string(refused.Raw), want) {
				t.Errorf("no %s in %s", want, refused.Raw)
			}
			if got, want := refused.Header.Get("RateLimit-Policy"), `"dates";q=2`; got != want {
				t.Errorf("RateLimit-Policy %s, want %s", got, want)
			}
		})
	}
}
