package verificationtest

import (
	"errors"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// Code returns the code in the nth mail, counted from 0.
func (r *Rig) Code(n int) string { return CodeIn(r.MailServer.Attempts()[n]) }

// LastCode returns the code in the newest mail.
func (r *Rig) LastCode() string { return r.Code(len(r.MailServer.Attempts()) - 1) }

// Check checks a code for a back end.
func (r *Rig) Check(id, code string) verification.CheckResult {
	r.Helper()
	c, err := r.Svc.Check(r.Context(), BackEnd, id, code)
	r.NoError(err)
	return c
}

func (r *Rig) WantChecked(what string, c verification.CheckResult, state verification.State, valid bool) {
	r.Helper()
	type checked struct {
		state verification.State
		valid bool
	}
	Equal(r, what, checked{c.State, c.Valid}, checked{state, valid})
}

// WantApproved fails the test unless a back end's check of a code approves it.
func (r *Rig) WantApproved(id, code string) {
	r.Helper()
	r.WantChecked("the right code", r.Check(id, code), verification.Approved, true)
}

// Try checks a code. It also returns whether the code was compared and, after too many failed
// checks, how long to wait.
func (r *Rig) Try(c verification.Caller, id, code string) (checked verification.CheckResult, compared bool,
	wait time.Duration,
) {
	r.Helper()
	checked, err := r.Svc.Check(r.Context(), c, id, code)
	var many *verification.FailedCheckLimitError
	switch {
	case errors.As(err, &many):
		return checked, false, many.RetryAfter
	case err != nil:
		r.Fatalf("Check: %v", err)
	}
	return checked, checked.State == verification.Pending || checked.State == verification.MaxAttemptsReached || checked.Valid, 0
}

// Guess enters n codes of digits that none of the last ten mails has, and returns how many were
// compared.
func (r *Rig) Guess(c verification.Caller, n int, ids ...string) (compared int) {
	r.Helper()
	right := map[string]bool{}
	mails := r.MailServer.Attempts()
	for _, m := range mails[max(0, len(mails)-10):] {
		right[CodeIn(m)] = true
	}
	for i, next := 0, 0; i < n; next++ {
		guess := fmt.Sprintf("%0*d", r.Get(ids[i%len(ids)]).CodeFormat.Length, next)
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

// WantLockedOut fails the test unless a lockout refuses a send. It returns the wait.
func (r *Rig) WantLockedOut(ask verification.Request) (wait time.Duration) {
	r.Helper()
	mails := len(r.MailServer.Attempts())
	_, err := r.Svc.Send(r.Context(), ask)
	var many *verification.FailedCheckLimitError
	if !errors.As(err, &many) || !many.Send || many.RetryAfter <= 0 {
		r.Fatalf("Send: %v, want it locked out", err)
	}
	synctest.Wait()
	r.WantMails(mails)
	return many.RetryAfter
}

// Metrics counts what the processes of a rig observe, by lines such as "checked wrong".
type Metrics struct {
	mu     sync.Mutex
	counts map[string]int
}

// Take returns how often a line was observed since the last Take of this line.
func (m *Metrics) Take(line string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.counts[line]
	delete(m.counts, line)
	return n
}

func (m *Metrics) count(line ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts != nil {
		m.counts[Line(line...)]++
	}
}

// Decided implements verification.Observer.
func (m *Metrics) Decided(_ recipient.Channel, _, outcome, rule string) {
	m.count("decided", outcome, rule)
}

// RuleWouldRefuse implements verification.Observer.
func (m *Metrics) RuleWouldRefuse(ch recipient.Channel, app, rule string) {
	m.count("observed", ch, app, rule)
}

// Finished implements outbox.Observer.
func (m *Metrics) Finished(recipient.Channel, string, store.Status, bool, time.Duration) {}

// Checked implements verification.Observer.
func (m *Metrics) Checked(_ recipient.Channel, _, outcome string) { m.count("checked", outcome) }

// CheckBoundExceeded implements verification.Observer.
func (m *Metrics) CheckBoundExceeded(_ recipient.Channel, _, rule string) { m.count("bound", rule) }

// HumanChecked implements verification.Observer.
func (m *Metrics) HumanChecked(_, by, result string) { m.count("human", by, result) }

// JobRan implements jobs.Observer. The runs of jobs are not counted.
func (m *Metrics) JobRan(string, bool) {}

// PrefixPaused implements jobs.Observer.
func (m *Metrics) PrefixPaused(app, country string) { m.count("paused", app, country) }

// Attempted implements webhook.Observer.
func (m *Metrics) Attempted(app, outcome string) {
	m.count("attempted", app, outcome)
}

// CountRebuild implements core.Observer.
func (m *Metrics) CountRebuild() { m.count("rebuilt") }

// LimitAnswered implements core.Observer.
func (m *Metrics) LimitAnswered(limit string, op applimits.Operation, outcome string) {
	m.count("limit", limit, op, outcome)
}
