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

// peek returns the present states of a plan's rules (docs/PROMISES.md, promise 3). A carrier's hold
// is one more rule. Error: fault.Unavailable.
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

// carrierHold reads how long the carrier would refuse messages to the recipient of a text message.
// It returns this hold as the state of a rule named policy.CarrierName without a free place, or
// false if there is none.
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

// An answer to a browser doesn't show whether or when other callers requested codes for a
// recipient. So the state of a rule that doesn't refuse is computed only from the browser's own
// sends. If other callers' events make a rule refuse, the browser must learn how long to wait.
// Under a rule of an hour or longer, this wait ends at a rounded instant (roundedWait), and later
// answers show the same instant.

const MinRoundedWindow = time.Hour

const roundingStep = gates.HistoryMargin

// roundedWait returns the wait that a browser sees at an instant after a rule's refusal
// (docs/PROMISES.md, promise 3). The parameter ends is when the wait really ends. If the rule's
// window is an hour or longer, the end is rounded up to a multiple of 5 minutes in UTC. The
// rounding never makes the wait longer than the window.
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
	All []quota.Event // sends of all callers within the longest window plus 5 minutes; only the new send if it opened a verification
}

// redact returns the states of a plan's rules that the caller may see. A caller with a secret key
// sees every public rule exactly, but UnnamedRule only while it refuses. A browser sees less
// (docs/PROMISES.md, promise 3):
//
//   - While its verification is pending, all public rules, each in the state that
//     sendHistory.visibleState returns.
//   - Otherwise only the rule that refuses its request, if there is one.
//
// The browser's verification is the one that it names or has just opened. state is the state of
// this verification, and own has its ID and the IDs of those that it replaces. Both are empty
// without a verification. If the database doesn't answer, a browser sees as much as without one.
func (s *readService) redact(ctx context.Context, plan buckets.Plan, states gates.Answer, c Caller, state State,
	own []string,
) quota.Decision {
	d := states.Public()
	if c.Kind == BackEnd {
		// UnnamedRule limits an app's strangers without a client address together, not this person.
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

// visibleState returns the state of a rule that a browser sees in place of the actual one. In
// general it is computed only from the browser's own sends. But if other callers' events make the
// browser wait longer, the rule has no free place until the end of that wait. If the rule's window
// is an hour or longer, this end is rounded up, and later answers show the same end. For a rule on
// the recipient, they do so even when the actual end has passed.
func (s sendHistory) visibleState(actual quota.State, at time.Time) quota.State {
	own := s.Own
	if actual.Name == policy.CarrierName || actual.Recorded {
		own = nil
	}
	visible := quota.Evaluate([]quota.Rule{actual.Rule}, map[quota.Scope][]quota.Event{actual.Scope: own}, at).Rules[0]
	ends := at.Add(actual.RetryAfter)
	switch {
	case visible.RetryAfter > 0 && visible.RetryAfter == actual.RetryAfter,
		visible.RetryAfter > actual.RetryAfter && actual.Scope == quota.Recipient: // the database counts own sends, and would refuse
		return visible
	case actual.RetryAfter == 0:
		visible.RetryAfter, ends = 0, s.refusedByOthersUntil(actual.Rule)
	}
	if wait := roundedWait(actual.Rule, ends, at); wait > 0 {
		visible.Used, visible.ResetAfter, visible.RetryAfter = visible.Limit, wait, wait
	}
	return visible
}

// newFailedCheckLimitError tells a caller to wait from at on. bound is the rule that refuses. A
// caller without a secret key gets a rounded wait (roundedWait).
func newFailedCheckLimitError(c Caller, bound quota.Rule, wait time.Duration, at time.Time) *FailedCheckLimitError {
	if c.Kind != BackEnd {
		wait = roundedWait(bound, at.Add(wait), at)
	}
	return &FailedCheckLimitError{RetryAfter: wait}
}

// refusedByOthersUntil returns the actual end of the last refusal by a rule on the recipient, if
// other callers' sends had used up the rule. It returns zero without such a refusal, or if a later
// send shows that the refusal had ended. It also returns zero if the rule's waits are not rounded,
// because then no answer shows a wait after the actual end.
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
