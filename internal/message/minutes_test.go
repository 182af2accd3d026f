package message

import (
	"testing"
	"time"
)

func TestMinutes(t *testing.T) {
	for left, want := range map[time.Duration]int{
		10 * time.Minute: 10, 10*time.Minute - 300*time.Millisecond: 10, 10*time.Minute - 3*time.Second: 9, time.Minute: 1, 10 * time.Second: 1,
		-time.Second: 1,
	} {
		if got := Minutes(left); got != want {
			t.Errorf("minutes(%v) = %d, want %d", left, got, want)
		}
	}
}
