package verification

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// The waits in an answer come from the gates: peek and takeQuota ask the gates for them. redact
// removes the states that the caller must not know. docs/ARCHITECTURE.md has a table of the
// events that change a wait.

// peek returns the present states of a plan's rules (docs/PROMISES.md, promise 3). If the carrier
// now refuses messages to the recipient (a hold), the hold is shown as one more rule. Error:
// fault.Unavailable.
func (s *readService) peek(ctx context.Context, plan buckets.Plan) (gates.Answer, error) {
	current, err := s.Gates.Peek(ctx, plan)
	if err != nil {
		return current, err
	}
	carrier, held, err := s.carrierHold(ctx, plan)
	if held {
		current.Rules = append(current.Rules, carrier)
	}
	return current, err
}

// carrierHold reads from the database the carrier's hold on the recipient of a text message. Until
// the hold ends, the carrier would refuse messages to the recipient. carrierHold returns the hold
// as the state of a rule with the name policy.CarrierName. Until the hold ends, this rule has no
// free place. The result is false if there is no hold.
func (s *readService) carrierHold(ctx context.Context, plan buckets.Plan) (quota.State, bool, error) {
	if plan.Channel != recipient.SMS || s.Texts == nil {
		return quota.State{}, false, nil
	}
	hold, err := s.Rows.CarrierHold(ctx, plan.Channel, plan.Recipient)
	if err != nil || hold.Left <= 0 {
		return quota.State{}, false, err
	}
	rule := quota.Rule{Name: policy.CarrierName, Scope: quota.Recipient, Limit: 1, Window: max(hold.Whole, quota.MinWindow)}
	return quota.State{Rule: rule, Used: 1, ResetAfter: hold.Left, RetryAfter: hold.Left}, true, nil
}

// An answer to a browser does not show whether or when other callers requested codes for a
// recipient. So the state of a rule that does not refuse is computed only from the browser's own
// sends. The only exception is a refusal because of other callers' events, since the browser must
// learn how long to wait. This wait ends at a rounded instant (roundedWait), and later answers show
// the same instant.

// MinRoundedWindow is the shortest window of a rule whose waits are rounded up for browsers.
const MinRoundedWindow = time.Hour

// roundingStep is the unit to which roundedWait rounds an instant up.
const roundingStep = gates.HistoryMargin

// roundedWait returns the wait that a browser sees after a rule's refusal (docs/PROMISES.md,
// promise 3). The wait begins at the instant in the parameter at. The parameter ends is the instant
// at which the refusal actually ends. If the rule's window is an hour or longer, this end is
// rounded up to a multiple of 5 minutes in UTC. The rounding never makes the wait longer than the
// window.
func roundedWait(r quota.Rule, ends, at time.Time) time.Duration {
	wait := ends.Sub(at)
	if before := ends.Truncate(roundingStep); r.Window >= MinRoundedWindow && before.Before(ends) {
		return max(wait, min(before.Add(roundingStep).Sub(at), r.Window))
	}
	return wait
}

// sendHistory has counted sends to a recipient, oldest first.
type sendHistory struct {
	Own []quota.Event // sends of the verification that a browser names or has just opened, and of the verifications it replaces
	All []quota.Event // sends of all callers, for at least 5 minutes longer than the longest window; empty after an admission
}

// redact returns what the caller may see of the states of a plan's rules. A caller with a secret
// key sees every public rule exactly, but UnnamedRule only while it refuses. A browser sees less
// (docs/PROMISES.md, promise 3):
//
//   - While the browser's verification is pending, the browser sees all public rules, each in the
//     state that sendHistory.visibleState returns.
//   - Any other browser sees only the rule that refuses its request, if there is one.
//
// The browser's verification is the one that the browser names or has just opened. The parameter
// state is the state of this verification. The parameter own has the ID of this verification and
// the IDs of the verifications that it replaces. If there is no verification, both are empty. If
// the database does not answer, a browser sees as much as a browser without a verification.
func (s *readService) redact(ctx context.Context, plan buckets.Plan, states gates.Answer, c Caller, state State,
	own []string,
) quota.Decision {
	d := states.Public()
	if c.Kind == BackEnd {
		// UnnamedRule is no limit of the person, so it is told only while it refuses.
		hidden := func(x quota.State) bool { return x.Scope == policy.UnnamedScope && x.RetryAfter == 0 }
		if slices.ContainsFunc(d.Rules, hidden) {
			d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), hidden)
		}
		return d
	}
	if len(own) > 0 && states.History == nil {
		current, err := s.Gates.Peek(ctx, plan)
		states.History = current.History
		if err != nil {
			s.Logger.WarnContext(ctx, "quota shortened for browser: database did not answer", "error", err, logs.SeeDatabaseAway)
			state = ""
		}
	}
	var sends sendHistory
	if h, within := states.History, quota.LongestKeep(plan.SendRules)+roundingStep; h != nil && len(own) > 0 {
		sends = sendHistory{All: h.Sends(within), Own: h.SendsOfVerifications(own, within)}
	}
	visible := make([]quota.State, 0, len(d.Rules))
	for _, rule := range d.Rules {
		visible = append(visible, sends.visibleState(rule, d.At))
	}
	d.Rules = visible
	if state == Pending {
		return d
	}
	rule, refused := gates.VisibleRefusal(d)
	d.Rules = nil
	if refused {
		rule.Used, rule.ResetAfter = rule.Limit, rule.RetryAfter // hides by how much the limit was exceeded
		d.Rules = []quota.State{rule}
	}
	return d
}

// visibleState returns the state of a rule that a browser sees in place of the actual state. In
// general the visible state is computed only from the browser's own sends. But if other callers'
// events make the browser wait longer, the visible rule has no free place until the end of that
// longer wait. If the rule's window is an hour or longer, this end is rounded up. Later answers
// show the same rounded end, even when the actual end has passed.
func (s sendHistory) visibleState(actual quota.State, at time.Time) quota.State {
	own := s.Own
	if actual.Name == policy.CarrierName || !actual.Scope.Counted() {
		own = nil
	}
	visible := quota.Evaluate([]quota.Rule{actual.Rule}, map[quota.Scope][]quota.Event{actual.Scope: own}, at).Rules[0]
	ends := at.Add(actual.RetryAfter)
	switch {
	case visible.RetryAfter > 0 && visible.RetryAfter == actual.RetryAfter,
		visible.RetryAfter > actual.RetryAfter && actual.Scope == quota.Recipient: // the database counts these, and would refuse
		return visible
	case actual.RetryAfter == 0:
		visible.RetryAfter, ends = 0, s.refusedByOthersUntil(actual.Rule)
	}
	if wait := roundedWait(actual.Rule, ends, at); wait > 0 {
		visible.Used, visible.ResetAfter, visible.RetryAfter = visible.Limit, wait, wait
	}
	return visible
}

// newFailedCheckLimitError returns the error for a caller that must wait because there were too
// many failed checks. The parameter bound is the rule that refuses the caller. The parameter wait
// is the time from the instant in the parameter at to the end of the refusal. A caller without a
// secret key gets a rounded wait (roundedWait; docs/PROMISES.md, promise 3).
func newFailedCheckLimitError(c Caller, bound quota.Rule, wait time.Duration, at time.Time) *FailedCheckLimitError {
	if c.Kind != BackEnd {
		wait = roundedWait(bound, at.Add(wait), at)
	}
	return &FailedCheckLimitError{RetryAfter: wait}
}

// refusedByOthersUntil returns the actual end of the last refusal by a rule on the recipient, if
// other callers' sends had used up the rule. It returns zero if there was no such refusal, or if a
// later send shows that the refusal had ended. It also returns zero if the rule's waits are not
// rounded, because then no answer shows a wait after the actual end.
func (s sendHistory) refusedByOthersUntil(r quota.Rule) (ends time.Time) {
	if r.Name == policy.CarrierName || r.Scope != quota.Recipient || r.Calendar() || r.Window < MinRoundedWindow ||
		len(s.All) < r.Limit {
		return ends
	}
	ends = s.All[len(s.All)-r.Limit].At.Add(r.Window)
	if s.All[len(s.All)-1].At.Before(ends) &&
		(len(s.Own) < r.Limit || s.Own[len(s.Own)-r.Limit].At.Add(r.Window).Before(ends)) {
		return ends
	}
	return time.Time{}
}
