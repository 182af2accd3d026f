package gates_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	vtest "sendcode/internal/verification/verificationtest"
)

// An outage is two lines in the log, however many requests it meets.
func TestLimiterOutageIsLoggedOnceAtEachEnd(t *testing.T) {
	const away, back = "the limiter is away", "the limiter is back"
	vtest.InBubble(t, func(r *vtest.Rig) {
		lines := func(what string, want int) {
			t.Helper()
			if got := strings.Count(r.Printed.String(), what); got != want {
				t.Errorf("%q: %d lines, want %d\n%s", what, got, want, r.Printed)
			}
		}
		for round := 1; round <= 2; round++ {
			r.LoseLimiter()
			for n := range 5 {
				r.Send(vtest.AskFor(fmt.Sprintf("r%d.n%d@example.com", round, n)))
				r.Sleep(2 * time.Second) // the limiter is asked again each time
			}
			lines(away, round)
			lines(back, round-1)
			r.EmptyLimiter()
			r.Send(vtest.AskFor(fmt.Sprintf("r%d.last@example.com", round)))
			r.Sleep(2 * time.Second)
			r.Send(vtest.AskFor(fmt.Sprintf("r%d.later@example.com", round)))
			lines(away, round)
			lines(back, round)
			lines("sends_decided_by_the_log=5", round)
		}
	})
}
