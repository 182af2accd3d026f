package faults

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// While an attacker asks for one recipient as fast as they are answered, all others get their codes. How long they wait
// is what `make bench` says.
func TestHonestRequestsBesideAnAttack(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attack := newLoad(s)
	var attackers, honest sync.WaitGroup
	for i := range 64 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				attack.ask(s.Replicas[i%2].Base, "victim@example.com")
			}
		})
	}
	const people = 150
	var admitted atomic.Int64
	every(ctx, 10*time.Millisecond, func(n int) {
		honest.Go(func() {
			if a := s.Ask(n%2, fmt.Sprintf("honest%d@example.com", n)); a.StatusCode == http.StatusAccepted {
				admitted.Add(1)
			} else {
				t.Errorf("an honest request: %d %s", a.StatusCode, a.Raw)
			}
		})
		if n == people-1 {
			honest.Wait()
			s.Await("an attack worth the name", func() bool { return attack.Refused.Load() >= 500 })
			stop()
		}
	})
	attackers.Wait()
	t.Logf("%d honest requests let in; of the attack %d, and %d refused", admitted.Load(), attack.Admitted.Load(), attack.Refused.Load())
	if admitted.Load() < people || attack.Admitted.Load() != 1 || attack.Cut.Load() > 0 {
		t.Error("that is not as it should be")
	}
}
