package verificationtest

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// Code is the code in the nth mail.
func (r *Rig) Code(n int) string { return CodeIn(r.MailServer.Attempts()[n]) }

// LastCode is the code in the mail that was sent last.
func (r *Rig) LastCode() string { return r.Code(len(r.MailServer.Attempts()) - 1) }

// WrongCode is another code of the same length.
func WrongCode(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return "9" + code[1:]
}

// Check checks a code for a back end.
func (r *Rig) Check(id, code string) verification.Checked {
	r.Helper()
	c, err := r.Svc.Check(r.Context(), BackEnd, id, code)
	if err != nil {
		r.Fatalf("Check: %v", err)
	}
	return c
}

// WantApproved fails the test unless a back end's check of a code approves it.
func (r *Rig) WantApproved(id, code string) {
	r.Helper()
	if c := r.Check(id, code); !c.Valid || c.State != verification.Approved {
		r.Errorf("%+v, want it approved", c)
	}
}

// Try checks a code, and returns also whether it was compared; otherwise how long to wait.
func (r *Rig) Try(c verification.Caller, id, code string) (checked verification.Checked, compared bool, wait time.Duration) {
	r.Helper()
	checked, err := r.Svc.Check(r.Context(), c, id, code)
	var many *verification.TooManyChecksError
	switch {
	case errors.As(err, &many):
		return checked, false, many.RetryAfter
	case err != nil:
		r.Fatalf("Check: %v", err)
	}
	return checked, checked.Compared() && (checked.State == verification.Pending || checked.State == verification.MaxAttemptsReached ||
		checked.Valid), 0
}

// Guess enters n codes that none of the last mails has, and returns how many were compared.
func (r *Rig) Guess(c verification.Caller, n int, ids ...string) (compared int) {
	r.Helper()
	right := map[string]bool{}
	mails := r.MailServer.Attempts()
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

// WantLockedOut fails the test unless a send is refused since its code could not be checked.
func (r *Rig) WantLockedOut(ask verification.Ask) (wait time.Duration) {
	r.Helper()
	mails := len(r.MailServer.Attempts())
	_, err := r.Svc.Send(r.Context(), ask)
	var many *verification.TooManyChecksError
	if !errors.As(err, &many) || !many.Send || many.RetryAfter <= 0 {
		r.Fatalf("Send: %v, want it locked out", err)
	}
	synctest.Wait()
	if n := len(r.MailServer.Attempts()); n != mails {
		r.Errorf("%d mails went out", n-mails)
	}
	return many.RetryAfter
}

// noObserver observes nothing.
type noObserver struct{}

func (noObserver) Decided(recipient.Channel, string, string, string) {}

func (noObserver) Observed(recipient.Channel, string, string) {}

func (noObserver) Finished(recipient.Channel, string, store.Status, time.Duration) {}

func (noObserver) Checked(recipient.Channel, string, string) {}

func (noObserver) CheckBound(recipient.Channel, string, string) {}

func (noObserver) PrefixPaused(string, string) {}

// CheckCounts counts the outcomes of checks, and the bounds that were met.
type CheckCounts struct {
	noObserver
	Outcomes, Bounds map[string]int
}

// Checked implements verification.Observer.
func (c CheckCounts) Checked(_ recipient.Channel, _, outcome string) { c.Outcomes[outcome]++ }

// CheckBound implements verification.Observer.
func (c CheckCounts) CheckBound(_ recipient.Channel, _, rule string) { c.Bounds[rule]++ }

// CountChecks observes the checks of the service.
func (r *Rig) CountChecks() CheckCounts {
	counts := CheckCounts{Outcomes: map[string]int{}, Bounds: map[string]int{}}
	r.Svc.Observe(counts)
	return counts
}

// Noted notes the rules that would have refused, and the pauses of prefixes.
type Noted struct {
	noObserver
	All []string
}

// Observed implements verification.Observer.
func (n *Noted) Observed(ch recipient.Channel, app, rule string) {
	n.All = append(n.All, fmt.Sprint(ch, " ", app, " ", rule))
}

// PrefixPaused implements jobs.Observer.
func (n *Noted) PrefixPaused(app, country string) { n.All = append(n.All, app+" "+country) }
