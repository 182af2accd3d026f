package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// While somebody asks for one recipient as fast as they are answered, all others get their codes. How long they wait
// is what `make bench` says.
func TestHonestRequestsBesideAnAttack(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).start(2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attack := &load{sends: map[uuid.UUID]bool{}}
	var attackers, honest sync.WaitGroup
	for i := range 64 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				attack.ask(s.replicas[i%2].base, "victim@example.com")
			}
		})
	}
	const people = 150
	var admitted atomic.Int64
	every(ctx, 10*time.Millisecond, func(n int) {
		honest.Go(func() {
			if a := s.ask(n%2, fmt.Sprintf("honest%d@example.com", n)); a.status == http.StatusAccepted {
				admitted.Add(1)
			} else {
				t.Errorf("an honest request: %d %s", a.status, a.raw)
			}
		})
		if n == people-1 {
			honest.Wait()
			s.await("an attack worth the name", func() bool { return attack.refused.Load() >= 500 })
			stop()
		}
	})
	attackers.Wait()
	t.Logf("%d honest requests let in; of the attack %d, and %d refused", admitted.Load(), attack.admitted.Load(), attack.refused.Load())
	if admitted.Load() < people || attack.admitted.Load() != 1 {
		t.Error("that is not as it should be")
	}
	for _, odd := range attack.odd {
		t.Errorf("answered %s", odd)
	}
}
