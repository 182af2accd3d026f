package rig

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/verification"
)

// lastCode is in the mail that was sent last.
func (r *Rig) LastCode() string { return CodeIn(r.Post.All()[len(r.Post.All())-1]) }

// Guess enters n codes that none of the last mails has, and returns how many were compared.
func (r *Rig) Guess(c verification.Caller, n int, ids ...string) (compared int) {
	r.Helper()
	right := map[string]bool{}
	mails := r.Post.All()
	for _, m := range mails[max(0, len(mails)-10):] {
		right[CodeIn(m)] = true
	}
	for i, next := 0, 0; i < n; next++ {
		guess := fmt.Sprintf("%06d", next)
		if right[guess] {
			continue
		}
		if _, was, _ := r.Try(c, ids[i%len(ids)], guess); was {
			compared++
		}
		i++
	}
	return compared
}

// locked wants a send to be refused since its code could not be checked.
func (r *Rig) Locked(ask verification.Ask) (wait time.Duration) {
	r.Helper()
	mails := len(r.Post.All())
	_, err := r.Svc.Send(r.Context(), ask)
	var many *verification.TooManyChecksError
	if !errors.As(err, &many) || !many.Send || many.RetryAfter <= 0 {
		r.Fatalf("Send: %v, want it locked out", err)
	}
	synctest.Wait()
	if n := len(r.Post.All()); n != mails {
		r.Errorf("%d mails went out", n-mails)
	}
	return many.RetryAfter
}

// CheckEars observes checks.
type CheckEars struct {
	blind
	Outcomes, Bounds map[string]int
}

// Checked counts an outcome.
func (c CheckEars) Checked(_ recipient.Channel, _, outcome string) { c.Outcomes[outcome]++ }

// CheckBound counts a bound.
func (c CheckEars) CheckBound(_ recipient.Channel, _, rule string) { c.Bounds[rule]++ }

func (r *Rig) Listen() CheckEars {
	ears := CheckEars{Outcomes: map[string]int{}, Bounds: map[string]int{}}
	r.Svc.Observe(ears)
	return ears
}
