package outbox

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	o := New(Config{}, Parts{})
	for n := range 100 {
		low, high := time.Hour, time.Duration(0)
		for range 200 {
			d := o.backoff(n)
			low, high = min(low, d), max(high, d)
		}
		if low < 1500*time.Millisecond || high > 37500*time.Millisecond || (n <= 1 && high > 2500*time.Millisecond) {
			t.Errorf("after attempt %d: %v to %v", n, low, high)
		}
	}
}
