package verification_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
)

// However many ask for one recipient, answers come at a pace; all others are answered as ever.
func TestOneRecipientCannotCrowdOutTheOthers(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		began := time.Now()
		const attackers = 500
		answered := make(chan verification.Answer, attackers)
		for range attackers {
			go func() {
				a, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana))
				if err != nil {
					t.Error(err)
				}
				answered <- a
			}()
		}
		synctest.Wait()
		if n := len(answered); n != verification.Abreast { // the place of the one that was let in was free at once
			t.Errorf("%d answers at once", n)
		}
		for i := range 200 {
			r.Send(rig.AskFor(fmt.Sprintf("honest%d@example.com", i)))
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("others waited %v", waited)
		}
		for range attackers {
			if a := <-answered; a.Admitted {
				t.Error("let in")
			}
		}
		if took, least := time.Since(began), attackers/verification.Abreast*verification.Pace; took != least {
			t.Errorf("took %v, want %v", took, least)
		}
		rig.Waited(time.Second)
		if n := r.Svc.Lines(); n != 0 {
			t.Errorf("%d lines are kept", n)
		}
	})
}

// A request that waits for its mail holds up no other.
func TestWaitingForTheMailTakesNoPlace(t *testing.T) {
	wide := func(s *rig.Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules[0].Limit, p.Policy.Rules[1].Limit, p.Policy.Rules[2].Limit = 1000, 1000, 1000
		s.Purposes["default"] = p
	}
	rig.InBubbleWith(t, wide, func(r *rig.Rig) {
		release := make(chan struct{})
		began := time.Now()
		for range 2 * verification.Abreast {
			r.Post.Tell(rig.Hanging(release))
			ask := rig.AskFor(rig.Ana)
			ask.Wait = 10 * time.Second
			go func() { _, _ = r.Svc.Send(r.Context(), ask) }()
			synctest.Wait()
		}
		if n := r.Svc.Lines(); n != 0 || time.Since(began) != 0 {
			t.Errorf("%d lines after %v", n, time.Since(began))
		}
		close(release)
		rig.Waited(11 * time.Second)
	})
}
