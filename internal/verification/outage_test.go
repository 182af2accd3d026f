package verification

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// An outage is two lines in the log, however many requests it meets.
func TestLimiterOutageIsLoggedOnceAtEachEnd(t *testing.T) {
	const away, back = "the limiter is away", "the limiter is back"
	inBubble(t, func(r *rig) {
		lines := func(what string, want int) {
			t.Helper()
			if got := strings.Count(r.printed.String(), what); got != want {
				t.Errorf("%q: %d lines, want %d\n%s", what, got, want, r.printed)
			}
		}
		for round := 1; round <= 2; round++ {
			r.lose()
			for n := range 5 {
				r.send(askFor(fmt.Sprintf("r%d.n%d@example.com", round, n)))
				waited(2 * time.Second) // the limiter is asked again each time
			}
			lines(away, round)
			lines(back, round-1)
			r.find()
			r.send(askFor(fmt.Sprintf("r%d.last@example.com", round)))
			waited(2 * time.Second)
			r.send(askFor(fmt.Sprintf("r%d.later@example.com", round)))
			lines(away, round)
			lines(back, round)
			lines("sends_decided_by_the_log=5", round)
		}
	})
}
