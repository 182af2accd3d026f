package gates_test

import (
	"testing"
	"time"

	"sendcode/internal/verification/rig"
)

// A limiter that lost its events is a rebuild; a recipient that it never had, and one that it kept, is none.
func TestRebuildsAreCounted(t *testing.T) {
	rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
		want := func(when string, n int64) {
			t.Helper()
			if got := r.Svc.Rebuilder.Rebuilds(); got != n {
				t.Errorf("%s: %d rebuilds, want %d", when, got, n)
			}
		}
		for range 3 {
			r.Looked(r.Svc)
			r.Send(rig.AskFor(rig.Ana))
			rig.Waited(time.Second)
		}
		want("nothing was lost", 0)
		r.Find()
		r.Looked(r.Svc)
		want("a look after a flush", 1)
		r.Looked(r.Svc)
		want("another look", 1)
		r.Find()
		r.Send(rig.AskFor(rig.Ana))
		want("a send after a flush", 2)
	})
}
