package faults

import (
	"context"
	"net/http"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// Postgres and Redis are restarted under load, in turn: no send is lost or doubled, nothing is over the policy, and the
// service is whole again by itself.
func TestRestartedPartsUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t).Start(2)
	l := underLoad(s, func(ctx context.Context) int {
		return every(ctx, 700*time.Millisecond, func(n int) {
			if n%2 == 0 {
				if err := s.Postgres.Restart(); err != nil {
					t.Error(err)
				}
				return
			}
			s.Redis.Stop()
			apptest.Sleep(100 * time.Millisecond)
			if err := s.Redis.Start(); err != nil {
				t.Error(err)
			}
		})
	})
	for i := range s.Replicas {
		s.Await("the log to be back", func() bool { status, _ := s.Ready(i); return status == http.StatusOK })
	}
	holds(s, l, 0)
	recovers(s)
}
