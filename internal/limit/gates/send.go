package gates

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/quota"
)

// Send is a send on which the first gate decides.
type Send struct {
	buckets.Plan
	ID string // the same for a repetition, so that a send counts once
	// LowerLimits has rules of the plan with lower limits than in the plan. They must admit the
	// send too, for example because no human check was passed.
	LowerLimits []quota.Rule
	// With Browser, the caller sees only VisibleRefusal of a refusal. With Named, the browser names
	// a verification, so its answer has other rules too.
	Browser, Named bool
}

// Taken is the first gate's decision.
type Taken struct {
	quota.Decision           // by the plan's rules
	AskedAt        time.Time // when the limiter was called
	// LowerLimits is the decision by Send.LowerLimits if those alone refuse the send, otherwise
	// nil.
	LowerLimits *quota.Decision
	// The states of both gates, if the plan's rules refuse.
	Refusal Answer
}

// TakeSend counts a send in every bucket or, if refused, in none. Without rules it admits the send
// and counts nothing. If the limiter is away, this process decides what the database doesn't, and
// the decision has only those states.
//
// If the plan's rules refuse, TakeSend reads the recipient's rows, because the wait depends on both
// gates. If the wait is over by then, or if the sends that the rule backoff counted no longer
// count, it calls the limiter once more, and returns a second refusal even if its wait is over.
//
// A send that isn't admitted while the limiter didn't answer is refunded later. If the process dies
// after TakeSend, the limiter may count a send without a row until the windows end. Errors:
// fault.Unavailable if rows are needed and can't be read; quota.ErrRefunded.
func (g *Gates) TakeSend(ctx context.Context, s Send) (taken Taken, err error) {
	mayCount := false // the limiter did not answer, and may count the send
	defer func() {
		if mayCount && !taken.Admitted {
			g.RefundLater(s.ID, buckets.OfCountedScopes(s.Buckets)...)
		}
	}()
	for range 2 {
		taken.AskedAt = g.now()
		d, unanswered, err := g.takeSendOnce(ctx, s)
		mayCount = mayCount || unanswered
		if err != nil {
			return taken, err
		}
		taken.Decision = d
		if len(s.LowerLimits) > 0 {
			taken.Rules = statesOf(s.Rules, d.Rules)
		}
		if d.Admitted {
			return taken, nil
		}
		if taken.Allowed() && !d.Allowed() {
			lowerDecision := d
			lowerDecision.Rules = statesOf(s.LowerLimits, d.Rules)
			taken.LowerLimits = &lowerDecision
			return taken, nil
		}
		if taken.Refusal, err = g.answerRefusal(ctx, s, taken.Decision, taken.AskedAt); err != nil || !taken.Refusal.Allowed() {
			return taken, err
		}
	}
	taken.Refusal.Rules = taken.Rules
	return taken, nil
}

// takeSendOnce calls the limiter or, if that is away, lets this process decide. The decision has
// the states of the lower limits as well. unanswered says that the limiter was called, and may have
// counted the send.
func (g *Gates) takeSendOnce(ctx context.Context, s Send) (d quota.Decision, unanswered bool, err error) {
	if len(s.Rules) == 0 { // the limiter accepts no request without rules
		return quota.Decision{Admitted: true, At: g.now()}, false, nil
	}
	r, local := quota.Request{ID: s.ID, Rules: s.Rules, Also: s.Also, Buckets: s.Buckets}, s.LimiterRules
	if len(s.LowerLimits) > 0 {
		r.Rules, local = slices.Concat(s.LowerLimits, r.Rules), slices.Concat(s.LowerLimits, local)
	}
	d, err = g.callLimiter(ctx, r, local, Limiter.Take)
	if !errors.Is(err, errLimiterAway) {
		return d, false, err
	}
	unanswered = errors.Is(err, quota.ErrUnavailable)
	g.outage.sends.Add(1)
	if r.Rules = local; len(local) > 0 {
		d, err = g.takeLocally(ctx, r)
	} else {
		d, err = g.local.Peek(ctx, r)
		d.Admitted, d.Local = err == nil, g.shared != nil
	}
	return d, unanswered, err
}

// answerRefusal returns the states of both gates for a send that was refused by d at askedAt.
// Error: the database's.
//
// If a browser is shown a rule on another scope than recipient, failures and backoff, its wait
// doesn't depend on the database, whose error is ignored. If the browser names no verification, the
// rows aren't even read, and the answer shows nothing of the recipient's rules.
func (g *Gates) answerRefusal(ctx context.Context, s Send, d quota.Decision, askedAt time.Time) (Answer, error) {
	wide := false
	if s.Browser {
		shown, _ := VisibleRefusal(d)
		wide = !policy.CountedInDatabase(shown.Rule) && shown.Scope != policy.BackoffScope
	}
	if wide && !s.Named {
		return Answer{Decision: d}, nil
	}
	answer, err := g.mergeRefusal(ctx, s.Plan, d, askedAt)
	if wide && err != nil {
		return Answer{Decision: d}, nil
	}
	return answer, err
}

// mergeRefusal merges a refusal with the states of the recipient's rows.
func (g *Gates) mergeRefusal(ctx context.Context, p buckets.Plan, d quota.Decision, askedAt time.Time) (Answer, error) {
	d = g.correctBackoff(ctx, p, d)
	answeredAt := g.now()
	rows, err := g.readHistory(ctx, p, &d)
	if err != nil || rows == nil {
		return Answer{Decision: d}, err
	}
	h := g.asOfNow(rows.rows.History, rows.answeredAt)
	return Answer{g.merge(p, d, askedAt, answeredAt, g.countedRows(p, h, rows.askedAt)), &h}, nil
}

// VisibleRefusal returns the one rule of a refusal that a browser sees: the blocking rule with the
// longest wait among those wider than the recipient, or else among those on the recipient. So a
// client over its own limits gets the same answer for every recipient. It returns false if no rule
// blocks.
func VisibleRefusal(d quota.Decision) (quota.State, bool) {
	wide := d
	wide.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool { return !policy.IsWiderScope(s.Scope) })
	if s, blocks := wide.Blocking(); blocks {
		return s, true
	}
	return d.Blocking()
}
