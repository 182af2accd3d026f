package verification

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/parts"
)

// However many ask for one recipient, answers come at a pace; all others are answered as ever.
func TestOneRecipientCannotCrowdOutTheOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		began := time.Now()
		const attackers = 500
		answered := make(chan Answer, attackers)
		for range attackers {
			go func() {
				a, err := r.svc.Send(r.Context(), askFor(ana))
				if err != nil {
					t.Error(err)
				}
				answered <- a
			}()
		}
		synctest.Wait()
		if n := len(answered); n != abreast { // the place of the one that was let in was free at once
			t.Errorf("%d answers at once", n)
		}
		for i := range 200 {
			r.send(askFor(fmt.Sprintf("honest%d@example.com", i)))
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("others waited %v", waited)
		}
		for range attackers {
			if a := <-answered; a.Admitted {
				t.Error("let in")
			}
		}
		if took, least := time.Since(began), attackers/abreast*pace; took != least {
			t.Errorf("took %v, want %v", took, least)
		}
		waited(time.Second)
		if n := len(r.svc.lines.of); n != 0 {
			t.Errorf("%d lines are kept", n)
		}
	})
}

func TestALineEndsWithPatienceOrTheClient(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		l := newLines()
		var turns []*turn
		for range abreast {
			turn, err := l.enter(t.Context(), "ana")
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, turn)
		}
		began := time.Now()
		if _, err := l.enter(t.Context(), "ana"); !errors.Is(err, ErrUnavailable) || time.Since(began) != patience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		gone, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		began = time.Now()
		if _, err := l.enter(gone, "ana"); !errors.Is(err, ErrUnavailable) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		turns[0].letIn() // at once, and only once
		turns[0].end()
		began = time.Now()
		next, err := l.enter(t.Context(), "ana")
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		next.end()
		if _, err := l.enter(t.Context(), "ana"); err != nil || time.Since(began) != pace {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for _, turn := range turns[1:] {
			turn.letIn()
		}
		if n := l.of["ana"].used; n != 1 {
			t.Errorf("%d places are taken", n)
		}
	})
}

// Who waits for their mail stands in nobody's way.
func TestWaitingForTheMailTakesNoPlace(t *testing.T) {
	wide := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules[0].Limit, p.Policy.Rules[1].Limit, p.Policy.Rules[2].Limit = 1000, 1000, 1000
		s.Purposes["default"] = p
	}
	inBubbleWith(t, wide, func(r *rig) {
		release := make(chan struct{})
		began := time.Now()
		for range 2 * abreast {
			r.post.tell(hanging(release))
			ask := askFor(ana)
			ask.Wait = 10 * time.Second
			go func() { _, _ = r.svc.Send(r.Context(), ask) }()
			synctest.Wait()
		}
		if n := len(r.svc.lines.of); n != 0 || time.Since(began) != 0 {
			t.Errorf("%d lines after %v", n, time.Since(began))
		}
		close(release)
		waited(11 * time.Second)
	})
}
