package app

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// tried is what many checks came to.
type tried struct{ valid, wrong, barred, ended atomic.Int32 }

// checkAtOnce sends n checks at once, over all replicas; code and id are told by the number of the check.
func (s *stack) checkAtOnce(n int, of func(i int) (id, code string)) *tried {
	s.Helper()
	var sum tried
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id, code := of(i)
			switch a := s.check(i%len(s.replicas), id, code); {
			case a.status == http.StatusTooManyRequests && a.Type == "/problems/too-many-checks" && a.RetryAfter > 0 && a.header.Get("Retry-After") != "":
				sum.barred.Add(1)
			case a.status != http.StatusOK:
				s.Errorf("%d %s", a.status, a.raw)
			case a.Valid:
				sum.valid.Add(1)
			case a.state() == "pending":
				sum.wrong.Add(1)
			default:
				sum.ended.Add(1)
			}
		})
	}
	wg.Wait()
	return &sum
}

// counted is how many tries the log counted.
func (s *stack) counted(ids ...string) (n int) {
	s.Helper()
	for _, id := range ids {
		left := s.do(0, http.MethodGet, "/v1/verifications/"+id, "").AttemptsRemaining
		if left == nil {
			s.Fatal("a verification does not say what is left of its tries")
		}
		n += 5 - *left
	}
	return n
}

func TestThousandRightChecks(t *testing.T) {
	s := onRealParts(t).start(2)
	a := s.ask(0, ana)
	code := s.codeIn(s.awaitMail(ana, 1)[0])
	sum := s.checkAtOnce(1000, func(int) (string, string) { return a.ID, code })
	if sum.valid.Load() != 1 || sum.valid.Load()+sum.ended.Load() != 1000 {
		t.Errorf("%d approved, %d ended, %d wrong, %d barred", sum.valid.Load(), sum.ended.Load(), sum.wrong.Load(), sum.barred.Load())
	}
}

func TestThousandWrongChecks(t *testing.T) {
	s := onRealParts(t).start(2)
	a := s.ask(0, ana)
	code := s.codeIn(s.awaitMail(ana, 1)[0])
	sum := s.checkAtOnce(1000, func(int) (string, string) { return a.ID, wrong(code) })
	if sum.valid.Load() != 0 || sum.wrong.Load() > 4 || sum.wrong.Load()+sum.ended.Load() != 1000 || s.counted(a.ID) != 5 {
		t.Errorf("%d approved, %d told to go on, %d ended, %d counted", sum.valid.Load(), sum.wrong.Load(), sum.ended.Load(), s.counted(a.ID))
	}
	if c := s.check(1, a.ID, code); c.Valid || c.state() != "max_attempts_reached" {
		t.Errorf("the right code after five wrong ones: %s", c.raw)
	}
}

// An attacker with any number of codes and resends, at two replicas at once, with Redis flushed meanwhile: 20 guesses of
// one recipient in a day, which the README says to be a chance of 20 in 1,000,000.
func TestGuessesOfOneRecipient(t *testing.T) {
	onEach(t, func(s *stack) {
		s.tenants().start(1)
		if s.redis != nil {
			s.start(1)
		}
		var ids []string
		for n := range 12 {
			body := fmt.Sprintf(`{"channel":"email","to":%q,"session":"s%d"}`, ana, n)
			a := s.do(n%len(s.replicas), "POST", "/v1/verifications", body)
			again := s.do(n%len(s.replicas), "POST", "/v1/verifications", body)
			if a.status != 202 || again.ID != a.ID {
				s.Fatalf("%d %s, then %s", a.status, a.raw, again.raw)
			}
			ids = append(ids, a.ID)
		}
		codes, none := map[string]bool{}, 0
		for _, m := range s.awaitMail(ana, 2*len(ids)) {
			codes[s.codeIn(m)] = true
		}
		for codes[fmt.Sprintf("%06d", none)] {
			none++
		}
		guess := func(i int) (string, string) { return ids[i%len(ids)], fmt.Sprintf("%06d", none) }
		s.checkAtOnce(60, guess)
		if s.redis != nil {
			s.flush()
		}
		sum := s.checkAtOnce(60, guess)
		if n := s.counted(ids...); n != 20 || sum.wrong.Load() != 0 || sum.barred.Load() == 0 {
			s.Errorf("%d guesses were counted; after a flush %d compared, %d refused", n, sum.wrong.Load(), sum.barred.Load())
		}
		a := s.ask(0, "somebody.else@example.com")
		if c := s.check(0, a.ID, "000000"); c.status != 200 {
			s.Errorf("another recipient: %d %s", c.status, c.raw)
		}
	})
}
