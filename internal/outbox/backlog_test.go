package outbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sendcode/internal/parts"
	vtest "sendcode/internal/verification/verificationtest"
)

// What waits in memory leaves in the order of its expiry, and what expires together in the order of the requests.
func TestBacklogLeavesInTheOrderOfItsExpiry(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		post := &vtest.SlowMailServer{Each: time.Second}
		r := vtest.NewRig(t, func(s *vtest.Settings) {
			s.Workers = 1
			login := s.Purposes["login"]
			login.TTL = 2 * time.Minute
			s.Purposes["login"] = login
		})
		r.Svc = r.Replica(post)
		r.Start()
		for n := range 12 {
			ask := vtest.AskFor(vtest.NthAddress(n))
			if n%3 == 2 {
				ask.Purpose = "login"
			}
			if a, err := r.Svc.Send(r.Context(), ask); err != nil || !a.Admitted {
				t.Fatalf("%d: %v", n, err)
			}
			r.Sleep(time.Millisecond)
		}
		r.Sleep(20 * time.Second)
		var order []int
		for _, m := range post.All() {
			var n int
			if _, err := fmt.Sscanf(m.To, "person-%d@", &n); err != nil {
				t.Fatal(err)
			}
			order = append(order, n)
		}
		if want := []int{0, 2, 5, 8, 11, 1, 3, 4, 6, 7, 9, 10}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		r.Quit()
	})
}
