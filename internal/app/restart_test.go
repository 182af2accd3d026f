package app

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// Postgres and Redis are restarted under load, in turn: no send is lost or doubled, nothing is over the policy, and the
// service is whole again by itself.
func TestRestartedPartsUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t).start(2)
	l := s.underLoad(func(ctx context.Context) int {
		return every(ctx, 700*time.Millisecond, func(n int) {
			if n%2 == 0 {
				if err := s.postgres.Restart(); err != nil {
					t.Error(err)
				}
				return
			}
			s.redis.Stop()
			after(100 * time.Millisecond)
			if err := s.redis.Start(); err != nil {
				t.Error(err)
			}
		})
	})
	for i := range s.replicas {
		s.await("the log to be back", func() bool { status, _ := s.ready(i); return status == http.StatusOK })
	}
	s.holds(l, 0)
	s.recovers()
}
