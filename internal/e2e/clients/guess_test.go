package clients

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"sendcode/internal/app/apptest"
)

// tried is what many checks came to.
type tried struct{ valid, wrong, barred, ended atomic.Int32 }

// checkAtOnce sends n checks at once, over all replicas; code and id are told by the number of the check.
func checkAtOnce(s *apptest.Stack, n int, of func(i int) (id, code string)) *tried {
	s.Helper()
	var sum tried
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id, code := of(i)
			switch a := s.Check(i%len(s.Replicas), id, code); {
			case a.StatusCode == http.StatusTooManyRequests && a.Problem() == "too-many-checks" && a.RetryAfter > 0 && a.Header.Get("Retry-After") != "":
				sum.barred.Add(1)
			case a.StatusCode != http.StatusOK:
				s.Errorf("%d %s", a.StatusCode, a.Raw)
			case a.Valid:
				sum.valid.Add(1)
			case a.State() == "pending":
				sum.wrong.Add(1)
			default:
				sum.ended.Add(1)
			}
		})
	}
	wg.Wait()
	return &sum
}

// counted is how many tries the database counted.
func counted(s *apptest.Stack, ids ...string) (n int) {
	s.Helper()
	for _, id := range ids {
		left := s.Look(id).AttemptsRemaining
		if left == nil {
			s.Fatal("a verification does not say what is left of its tries")
		}
		n += 5 - *left
	}
	return n
}

// Of a thousand right codes at once over two replicas one is approved; of a thousand wrong ones five are counted.
func TestThousandChecksAtOnce(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(2)
	a, b := s.Ask(0, apptest.Ana), s.Ask(0, "bea@example.com")
	right, other := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0]), s.CodeIn(s.AwaitMail("bea@example.com", 1)[0])
	sum := checkAtOnce(s, 1000, func(int) (string, string) { return a.ID, right })
	if sum.valid.Load() != 1 || sum.valid.Load()+sum.ended.Load() != 1000 {
		t.Errorf("%d approved, %d ended, %d wrong, %d barred", sum.valid.Load(), sum.ended.Load(), sum.wrong.Load(), sum.barred.Load())
	}
	sum = checkAtOnce(s, 1000, func(int) (string, string) { return b.ID, s.Wrong(other) })
	if sum.valid.Load() != 0 || sum.wrong.Load() > 4 || sum.wrong.Load()+sum.ended.Load() != 1000 || counted(s, b.ID) != 5 {
		t.Errorf("%d approved, %d told to go on, %d ended, %d counted", sum.valid.Load(), sum.wrong.Load(), sum.ended.Load(), counted(s, b.ID))
	}
	if c := s.Check(1, b.ID, other); c.Valid || c.State() != "max_attempts_reached" {
		t.Errorf("the right code after five wrong ones: %s", c.Raw)
	}
}
