package gates_test

import (
	"testing"
	"time"

	vtest "sendcode/internal/verification/verificationtest"
)

// A limiter that lost its events is a rebuild; a recipient that it never had, and one that it kept, is none.
func TestRebuildsAreCounted(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
		want := func(when string, n int64) {
			t.Helper()
			if got := r.Svc.Rebuilder.Rebuilds(); got != n {
				t.Errorf("%s: %d rebuilds, want %d", when, got, n)
			}
		}
		for range 3 {
			r.QuotaAt(r.Svc)
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		want("nothing was lost", 0)
		r.EmptyLimiter()
		r.QuotaAt(r.Svc)
		want("a look after a flush", 1)
		r.QuotaAt(r.Svc)
		want("another look", 1)
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		want("a send after a flush", 2)
	})
}
